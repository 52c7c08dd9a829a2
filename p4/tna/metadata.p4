// SPDX-License-Identifier: Apache-2.0
//
// The metadata of a packet. Only the bridge passes from ingress to egress, because the packet is deparsed and
// parsed again between them.
#ifndef TRIBUTARY_TNA_METADATA_P4
#define TRIBUTARY_TNA_METADATA_P4

// The number of a slot. It is as wide as the seq of a slice, because a Tofino's ALU does not mix widths.
typedef bit<32> slot_t;

// The slice that a slot holds, and the bitmap of its children.

struct slice_t {
    bit<32> seq;
    bit<32> children;
}

BRIDGE bridge_t {
    bit<1> ina;
    // GRADIENT: add to the slot. RESULT: release the slot.
    bit<1> act;
    bit<1> prune_ingress_port;
    bit<4> pad;
    // At the same position as the egress port in its header, so that both can be compared.
    bit<9> ingress_port;
    // The ingress port at its position in packet_in: an action cannot shift a field and clear its neighbour.
    bit<9> told_port;
    bit<7> told_pad;
    bit<16> job_index;
    slot_t slot;
    // GRADIENT: the bit of its child. RESULT: the seq of the next slice in this slot. They share a field, because a
    // stateful ALU can use two words of a packet, and the other one is the seq of the slice.
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
    // Zero if the packet's hop is for this node.
    bit<16> other_node;
    bit<2> claim;
    bit<32> seq_in_next_window;
    slot_t slot_base;
    slot_t slot_offset;
    bit<32> child_bit;
    // The values that the packet's admission entry allows.
    bit<32> allowed_child;
    bit<2> allowed_kinds;
    bit<1> allowed_aggregate;
    bit<16> allowed_rank;
    // Zero if the packet's field equals the field of its entry.
    bit<16> other_rank;
    bit<8> other_fan_in;
}

struct egress_metadata_t {
    bridge_t bridge;
    bit<2> frame;
    // 1 if the slot belongs to another job.
    bit<16> foreign;
    // Comparisons with the slice that the slot holds.
    bit<32> newer;
    bit<32> older;
    bit<32> released;
    // The bitmap of children before this packet.
    bit<32> children;
    // The number of children including this packet's.
    bit<8> count;
    bit<2> values;
    // 1 if the packet's slice is older than the slot's.
    bit<1> stale;
    bit<1> maximum;
    // 1 if all children have contributed.
    bit<1> complete;
    bit<2> outcome;
    bit<1> discarded;
}

#endif
