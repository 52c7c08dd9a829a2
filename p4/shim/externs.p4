// SPDX-License-Identifier: Apache-2.0
//
// The macros of `tna/externs.p4`, for v1model. An operation on a cell is an action that reads, changes and writes
// the cell. If another action calls it, it is part of that action, and BMv2 locks the register for both.
// A pair is one cell with both words, because v1model's registers do not support structs.
#ifndef TRIBUTARY_SHIM_EXTERNS_P4
#define TRIBUTARY_SHIM_EXTERNS_P4

#define COUNTER(index, size, name) counter<index>(size, CounterType.packets_and_bytes) name;

#define REGISTER(type, name) register<type, bit<32>>(SLOTS) name;
#define PAIR_REGISTER(name) register<bit<64>, bit<32>>(SLOTS) name;

#define ON_REGISTER(type, register, name, ...) \
    action name(in slot_t slot, out type result) { \
        type value; \
        register.read(value, slot); \
        __VA_ARGS__ \
        register.write(slot, value); \
    }
#define ON_PAIR(register, name, ...) \
    action name(in slot_t slot, out bit<32> result) { \
        bit<64> cell; \
        slice_t value; \
        register.read(cell, slot); \
        value.seq = cell[63:32]; \
        value.children = cell[31:0]; \
        __VA_ARGS__ \
        register.write(slot, value.seq ++ value.children); \
    }
#define LARGER(a, b) (a > b ? a : b)
#define EXECUTE(name, slot, result) name(slot, result)
#define EXECUTE_ONLY(name, slot) { bit<32> ignored; name(slot, ignored); }

// A struct, because v1model itself passes metadata from ingress to egress.
#define BRIDGE struct

#define TO_CONTROLLER CPU_PORT

#endif
