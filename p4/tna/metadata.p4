// SPDX-License-Identifier: Apache-2.0
//
// What travels with a packet. Ingress and egress have nothing in common but the bridge: between them a
// packet is written and parsed again.
#ifndef TRIBUTARY_TNA_METADATA_P4
#define TRIBUTARY_TNA_METADATA_P4

// A slot's number: as wide as the slice's, since a Tofino's ALU does not mix widths.
typedef bit<32> slot_t;

// What a slot's bitmap is of: the slice that it holds.

struct slice_t {
    bit<32> seq;
    bit<32> children;
}

BRIDGE bridge_t {
    bit<1> ina;
    // GRADIENT: add up here. RESULT: release the slot.
    bit<1> act;
    bit<1> prune_ingress_port;
    bit<4> pad;
    // Where egress has its own port, so that the two can be compared.
    bit<9> ingress_port;
    // The same where packet_in has it: an action can't shift a field and clear its neighbour.
    bit<9> told_port;
    bit<7> told_pad;
    bit<16> job_index;
    slot_t slot;
    // GRADIENT: the bit of the child it is from. RESULT: the next slice that the slot is for. One field, since a
    // stateful ALU sees two of a packet's words, and the slice's number is the other.
    bit<32> operand;
}

const bit<2> CLAIM_ADMITTED = 0;
const bit<2> CLAIM_REJECTED_AT_PORT = 1;
const bit<2> CLAIM_REJECTED_IN_JOB = 2;

struct metadata_t {
    bridge_t bridge;
    bit<2> frame;
    bit<1> checksum_error;
    bit<16> node;
    // Zero where the packet's entry is for this node.
    bit<16> other_node;
    bit<2> claim;
    bit<32> seq_in_next_window;
    slot_t slot_base;
    slot_t slot_offset;
    bit<32> child_bit;
    // What of this packet's claims its entry allows.
    bit<32> allowed_child;
    bit<2> allowed_kinds;
    bit<1> allowed_aggregate;
    bit<16> allowed_rank;
    // Zero where the packet says what its entry does.
    bit<16> other_rank;
    bit<8> other_fan_in;
}

struct egress_metadata_t {
    bridge_t bridge;
    bit<2> frame;
    // The slot is another job's.
    bit<16> foreign;
    // Against the slice that the slot holds.
    bit<32> newer;
    bit<32> older;
    bit<32> released;
    // The children that the slot has seen before this packet.
    bit<32> children;
    // How many it has seen now.
    bit<8> count;
    bit<2> values;
    // The slice is over.
    bit<1> stale;
    bit<1> maximum;
    // All children have been here.
    bit<1> complete;
    bit<2> outcome;
    bit<1> discarded;
}

#endif
