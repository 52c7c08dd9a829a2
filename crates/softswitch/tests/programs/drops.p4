// SPDX-License-Identifier: Apache-2.0
//
// Packets that are dropped by actions which get the metadata as a parameter: p4c gives them a copy, marks that, and
// copies it back.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> what;
}

struct headers_t {
    order_t order;
}

struct metadata_t { }

parser DropsParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.order);
        transition accept;
    }
}

control NoVerification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

action drop(inout standard_metadata_t standard) {
    mark_to_drop(standard);
}

control DropsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 2;
        standard.mcast_grp = (bit<16>) hdr.order.what[7:7];
        if (hdr.order.what[0:0] == 1) {
            drop(standard);
        }
        if (hdr.order.what[1:1] == 1) {
            // After all.
            standard.egress_spec = 3;
        }
    }
}

control DropsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.order.what[2:2] == 1) {
            drop(standard);
        }
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control DropsDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.order);
    }
}

V1Switch(DropsParser(), NoVerification(), DropsIngress(), DropsEgress(), NoUpdate(), DropsDeparser()) main;
