// SPDX-License-Identifier: Apache-2.0
//
// Macros for the operations of Tofino's stateful ALUs. The controls use only these macros, so that
// `shim/externs.p4` can define them for v1model, which has neither RegisterAction nor pairs.
#ifndef TRIBUTARY_TNA_EXTERNS_P4
#define TRIBUTARY_TNA_EXTERNS_P4

#define COUNTER(index, size, name) Counter<bit<64>, index>(size, CounterType_t.PACKETS_AND_BYTES) name;

#define REGISTER(type, name) Register<type, slot_t>(SLOTS, 0) name;
#define PAIR_REGISTER(name) Register<slice_t, slot_t>(SLOTS, {0, 0}) name;

// An operation on one cell: `value` is the cell, and `result` is returned to the packet.
#define ON_REGISTER(type, register, name, ...) \
    RegisterAction<type, slot_t, type>(register) name = { \
        void apply(inout type value, out type result) { \
            __VA_ARGS__ \
        } \
    };
#define ON_PAIR(register, name, ...) \
    RegisterAction<slice_t, slot_t, bit<32>>(register) name = { \
        void apply(inout slice_t value, out bit<32> result) { \
            __VA_ARGS__ \
        } \
    };
// A separate instruction, because it is not documented what an ALU returns after an `if` that is false.
#define LARGER(a, b) max(a, b)

#define EXECUTE(name, slot, result) result = name.execute(slot)
#define EXECUTE_ONLY(name, slot) name.execute(slot)

// A header in front of the packet, from ingress to egress. The parser makes it valid.
#define BRIDGE header

// The port of the switch's own processor. It depends on the board, and the command line can set it.
#ifndef TO_CONTROLLER
#define TO_CONTROLLER 192
#endif

#endif
