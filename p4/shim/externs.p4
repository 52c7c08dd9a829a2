// SPDX-License-Identifier: Apache-2.0
//
// The words of `tna/externs.p4`, for v1model. What is done to a cell becomes an action that reads it, does it,
// and writes it back; called by another action it is part of that one, for whose length BMv2 locks the register.
// A pair is a cell of both words, since v1model's registers have no structs.
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

// A struct, because v1model takes metadata from ingress to egress by itself.
#define BRIDGE struct

#define TO_CONTROLLER CPU_PORT

#endif
