// SPDX-License-Identifier: Apache-2.0
//
// Parses a frame from Ethernet to the values. A target's own parser calls this parser after it has parsed
// its port metadata.
#ifndef TRIBUTARY_PARSER_P4
#define TRIBUTARY_PARSER_P4

#include "headers.p4"
#include "metadata.p4"

// A target whose parser verifies checksums defines these macros before it includes this file.
#ifndef CHECK_IPV4
#define PARSER_CHECKSUM_PARAMETER
#define PARSER_CHECKSUM
#define CHECK_IPV4
#endif

parser FabricParser(packet_in packet, inout headers_t hdr, inout bit<2> frame PARSER_CHECKSUM_PARAMETER) {
    PARSER_CHECKSUM

    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            // Tagged frames are OPAQUE, whatever follows: the receiver's kernel or a plain switch may
            // remove one tag after the other.
            ETHERTYPE_VLAN: opaque;
            ETHERTYPE_SERVICE_VLAN: opaque;
            ETHERTYPE_QINQ_1: opaque;
            ETHERTYPE_QINQ_2: opaque;
            ETHERTYPE_QINQ_3: opaque;
            // An agent does not accept a gradient in a frame of any other type.
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        CHECK_IPV4
        transition select(hdr.ipv4.protocol, hdr.ipv4.version, hdr.ipv4.ihl) {
            (IP_PROTOCOL_UDP, 4, 5): parse_first_fragment;
            (IP_PROTOCOL_UDP, _, _): opaque;
            default: accept;
        }
    }

    // Only a first fragment has ports, because offsets are multiples of 8 bytes, the length of a UDP header.
    // Without the first fragment, a receiver cannot reassemble the later ones.
    state parse_first_fragment {
        transition select(hdr.ipv4.fragment_offset) {
            0: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            INA_UDP_PORT: parse_whole_datagram;
            default: accept;
        }
    }

    // The frame is OPAQUE until its last header is parsed, so a frame that ends early stays OPAQUE.
    state parse_whole_datagram {
        frame = FRAME_OPAQUE;
        transition select(hdr.ipv4.flags) {
            1 &&& 1: accept;
            default: parse_ina;
        }
    }

    state parse_ina {
        packet.extract(hdr.ina);
        transition select(hdr.ina.version, hdr.ina.kind, hdr.ina.hop_count) {
            (INA_VERSION, KIND_RESULT, 0): well_formed;
            (INA_VERSION, _, 1..MAX_HOPS): parse_hop;
            default: accept;
        }
    }

    state parse_hop {
        packet.extract(hdr.hop);
        transition select(hdr.ina.kind, hdr.ina.hop_count) {
            (KIND_GRADIENT, 1): parse_gradient;
            (KIND_GRADIENT, _): parse_hop_2;
            (KIND_RESULT, _): well_formed;
            default: accept;
        }
    }

    // Each entry has its own state, because Tofino's parser cannot count down a field.
#define PARSE_LATER_HOP(place, after) \
    state parse_hop_##place { \
        packet.extract(hdr.later_hops.next); \
        transition select(hdr.ina.hop_count) { \
            place: parse_gradient; \
            default: parse_hop_##after; \
        } \
    }
    PARSE_LATER_HOP(2, 3)
    PARSE_LATER_HOP(3, 4)
    PARSE_LATER_HOP(4, 5)
    PARSE_LATER_HOP(5, 6)
    PARSE_LATER_HOP(6, 7)
    PARSE_LATER_HOP(7, 8)

    // The last entry: MAX_HOPS is 8.
    state parse_hop_8 {
        packet.extract(hdr.later_hops.next);
        transition parse_gradient;
    }

    // Admission rejects a wrong `blocks`, because it knows the job whose counter it increments.
    state parse_gradient {
        transition select(hdr.ina.blocks) {
#define WIDTH(first, upto, next) upto: parse_values_0;
            HEADERS(WIDTH)
            default: well_formed;
        }
    }

#define PARSE_VALUES(first, upto, next) \
    state parse_values_##first { \
        packet.extract(hdr.values_##first); \
        transition select(hdr.ina.blocks) { \
            upto: parse_values_end; \
            default: parse_values_##next; \
        } \
    }
    HEADERS(PARSE_VALUES)

    state parse_values_end {
        transition well_formed;
    }

    state well_formed {
        frame = FRAME_INA;
        transition accept;
    }

    state opaque {
        frame = FRAME_OPAQUE;
        transition accept;
    }
}

#endif
