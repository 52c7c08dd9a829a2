// SPDX-License-Identifier: Apache-2.0
//
// How this program writes what Tofino's stateful ALUs do. The controls use these words only, so that
// `shim/externs.p4` can say the same for v1model, which has neither classes of actions nor pairs.
#ifndef TRIBUTARY_TNA_EXTERNS_P4
#define TRIBUTARY_TNA_EXTERNS_P4

#define COUNTER(index, size, name) Counter<bit<64>, index>(size, CounterType_t.PACKETS_AND_BYTES) name;

#define REGISTER(type, name) Register<type, slot_t>(SLOTS, 0) name;
#define PAIR_REGISTER(name) Register<slice_t, slot_t>(SLOTS, {0, 0}) name;

// What is done to one cell: `value` is the cell, `result` what the packet gets to know.
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
// An instruction of its own: behind an `if` that did not hold, what an ALU returns is not said anywhere.
#define LARGER(a, b) max(a, b)

#define EXECUTE(name, slot, result) result = name.execute(slot)
#define EXECUTE_ONLY(name, slot) name.execute(slot)

// Goes from ingress to egress in front of the packet: a header, which the parser makes valid.
#define BRIDGE header

// The switch's own processor. It depends on the board: the command line may name another port.
#ifndef TO_CONTROLLER
#define TO_CONTROLLER 192
#endif

#endif
