// SPDX-License-Identifier: Apache-2.0
//
// What travels with a packet inside the pipeline. Both targets zero it for each packet.
#ifndef TRIBUTARY_METADATA_P4
#define TRIBUTARY_METADATA_P4

// What the parser made of the frame. A frame that could carry INA where the parser does not look
// (options, fragments, VLAN tags) is OPAQUE: admission must not be walked around.
const bit<2> FRAME_PLAIN = 0;
const bit<2> FRAME_OPAQUE = 1;
const bit<2> FRAME_INA = 2;

// What is to be done with the values of the slice.
const bit<2> VALUES_KEEP = 0;
const bit<2> VALUES_STORE = 1;
const bit<2> VALUES_ADD = 2;
const bit<2> VALUES_LOAD = 3;

// What becomes of a GRADIENT behind the slot.
const bit<2> OUTCOME_FORWARD = 0;
const bit<2> OUTCOME_CONSUME = 1;
const bit<2> OUTCOME_PROBE = 2;

struct metadata_t {
    bit<2> frame;
    bit<8> hops_left;
    bit<16> node;
    bit<1> admitted;
    bit<1> release;
    bit<1> prune_ingress_port;
    bit<2> values;
    bit<2> outcome;
    bit<16> job_index;
    bit<32> slot;
    bit<32> slot_mask;
    bit<64> child_bit;
}

#endif
