// SPDX-License-Identifier: Apache-2.0
//
// The program for Tofino as a program for v1model, so that BMv2 and the embedded switch run the same controls. This
// file has v1model's parser, checksum and deparser, and the functions of a Tofino around its controls.
// ../README.md lists the differences from a Tofino.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

#include "../include/constants.p4"
#include "externs.p4"
#include "intrinsics.p4"
#include "../tna/controls.p4"
#include "../include/parser.p4"

struct shim_metadata_t {
    metadata_t ingress;
    egress_metadata_t egress;
}

parser ShimParser(
    packet_in packet,
    out headers_t hdr,
    inout shim_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    FabricParser() fabric;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_fabric;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state parse_fabric {
        fabric.apply(packet, hdr, meta.ingress.frame);
        transition accept;
    }
}

#define IPV4_FIELDS { \
    hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, \
    hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst \
}

control ShimVerify(inout headers_t hdr, inout shim_metadata_t meta) {
    apply {
        verify_checksum(
            meta.ingress.frame == FRAME_INA, IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ShimIngress(
    inout headers_t hdr,
    inout shim_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    SwitchIngress() ingress;
    ingress_intrinsic_metadata_t intrinsic;
    ingress_intrinsic_metadata_from_parser_t from_parser;
    ingress_intrinsic_metadata_for_deparser_t for_deparser;
    ingress_intrinsic_metadata_for_tm_t for_tm;

    action before() {
        intrinsic.ingress_port = standard_metadata.ingress_port;
        meta.ingress.checksum_error = standard_metadata.checksum_error;
        for_deparser.drop_ctl = 0;
        for_tm.ucast_egress_port = DROP_PORT;
        for_tm.mcast_grp_a = 0;
    }

    action discard() {
        mark_to_drop(standard_metadata);
    }

    action send() {
        standard_metadata.egress_spec = for_tm.ucast_egress_port;
        standard_metadata.mcast_grp = for_tm.mcast_grp_a;
    }

    apply {
        before();
        ingress.apply(hdr, meta.ingress, intrinsic, from_parser, for_deparser, for_tm);
        if (for_deparser.drop_ctl[0:0] == 1) {
            discard();
        } else {
            send();
        }
    }
}

control ShimEgress(
    inout headers_t hdr,
    inout shim_metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    SwitchEgress() egress;
    egress_intrinsic_metadata_t intrinsic;
    egress_intrinsic_metadata_from_parser_t from_parser;
    egress_intrinsic_metadata_for_deparser_t for_deparser;
    egress_intrinsic_metadata_for_output_port_t for_output_port;

    // Only the bridge passes from ingress to egress.
    action before() {
        meta.egress.bridge = meta.ingress.bridge;
        intrinsic.egress_port = standard_metadata.egress_port;
        for_deparser.drop_ctl = 0;
    }

    action discard() {
        mark_to_drop(standard_metadata);
    }

    apply {
        before();
        egress.apply(hdr, meta.egress, intrinsic, from_parser, for_deparser, for_output_port);
        if (for_deparser.drop_ctl[0:0] == 1) {
            discard();
        }
    }
}

control ShimUpdate(inout headers_t hdr, inout shim_metadata_t meta) {
    apply {
        update_checksum(
            meta.ingress.bridge.ina == 1, IPV4_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control ShimDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.ina);
        packet.emit(hdr.hop);
        packet.emit(hdr.later_hops);
#define EMIT_VALUES(first, upto, next) packet.emit(hdr.values_##first);
        HEADERS(EMIT_VALUES)
    }
}

V1Switch(
    ShimParser(),
    ShimVerify(),
    ShimIngress(),
    ShimEgress(),
    ShimUpdate(),
    ShimDeparser()) main;
