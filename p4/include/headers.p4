// SPDX-License-Identifier: Apache-2.0
//
// The headers that both targets parse. docs/specification.md, section 3, defines their fields.
#ifndef TRIBUTARY_HEADERS_P4
#define TRIBUTARY_HEADERS_P4

#include "constants.p4"
#include "lanes.p4"

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header udp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

header ina_t {
    bit<4> version;
    bit<4> kind;
    bit<8> flags;
    bit<16> job;
    bit<16> rank;
    bit<8> hop_count;
    bit<8> blocks;
    bit<32> seq;
    bit<32> contributors;
    bit<32> weight;
    // The two digits of the tag. A switch adds each digit separately, without a carry between them.
    bit<32> tag_high;
    bit<32> tag_low;
}

header hop_t {
    bit<16> node;
    bit<16> egress_port;
    bit<1> aggregate;
    bit<7> child;
    bit<8> fan_in;
}

// The first lane of a field is in its most significant bits.
#define LANES(first, lane, bits) bit<bits> lanes_##lane;
#define VALUES_TYPE(first, upto, next) header values_##first##_t { FIELDS_##first(LANES) }
HEADERS(VALUES_TYPE)

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

// `hop` is the entry that this switch acts on and removes. It is a separate header, so its removal shifts
// no other header. The stack behind it is parsed only to find the values.
struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    ina_t ina;
    hop_t hop;
    hop_t[7] later_hops;
#define VALUES_MEMBER(first, upto, next) values_##first##_t values_##first;
    HEADERS(VALUES_MEMBER)
}

#endif
