// SPDX-License-Identifier: Apache-2.0
//
// Ingress parses the received frame. Egress parses the bridge from ingress, and then the frame again.

// The parser verifies the checksum of the IPv4 header. `verify` returns true if the checksum is wrong.
#define PARSER_CHECKSUM_PARAMETER , inout bit<1> checksum_error
#define PARSER_CHECKSUM Checksum() ipv4_checksum;
#define CHECK_IPV4 \
    ipv4_checksum.add(hdr.ipv4); \
    checksum_error = (bit<1>)ipv4_checksum.verify();
#include "../include/parser.p4"

parser SwitchIngressParser(
    packet_in packet,
    out headers_t hdr,
    out metadata_t meta,
    out ingress_intrinsic_metadata_t intrinsic)
{
    FabricParser() fabric;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta.bridge.setValid();
        meta.bridge.ina = 0;
        meta.bridge.act = 0;
        meta.bridge.prune_ingress_port = 0;
        meta.bridge.pad = 0;
        meta.bridge.ingress_port = 0;
        meta.bridge.told_port = 0;
        meta.bridge.told_pad = 0;
        meta.bridge.job_index = 0;
        meta.bridge.slot = 0;
        meta.bridge.operand = 0;
        meta.frame = FRAME_PLAIN;
        meta.checksum_error = 0;
        meta.claim = CLAIM_ADMITTED;
        transition select(intrinsic.ingress_port) {
            TO_CONTROLLER: parse_packet_out;
            default: parse_fabric;
        }
    }

    // A packet-out is sent unchanged, so the parser stops after its header.
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state parse_fabric {
        fabric.apply(packet, hdr, meta.frame, meta.checksum_error);
        transition accept;
    }
}

parser SwitchEgressParser(
    packet_in packet,
    out headers_t hdr,
    out egress_metadata_t meta,
    out egress_intrinsic_metadata_t intrinsic)
{
    FabricParser() fabric;

    // Ingress has already checked it.
    bit<1> checksum_error;

    state start {
        packet.extract(intrinsic);
        packet.extract(meta.bridge);
        meta.frame = FRAME_PLAIN;
        checksum_error = 0;
        meta.foreign = 0;
        meta.newer = 0;
        meta.older = 0;
        meta.released = 0;
        meta.children = 0;
        meta.count = 0;
        meta.values = VALUES_KEEP;
        meta.stale = 0;
        meta.maximum = 0;
        meta.complete = 0;
        meta.discarded = 0;
        meta.outcome = OUTCOME_FORWARD;
        transition select(meta.bridge.ina) {
            1: parse_fabric;
            default: accept;
        }
    }

    state parse_fabric {
        fabric.apply(packet, hdr, meta.frame, checksum_error);
        transition accept;
    }
}
