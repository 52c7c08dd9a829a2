// SPDX-License-Identifier: Apache-2.0
//
// Packets that are cloned, resubmitted and recirculated, as the packet itself orders. Each one that leaves says in
// front of it how it came to egress.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<8> in_ingress;
    bit<8> in_egress;
    bit<8> rounds;
    bit<8> session;
    bit<16> mark;
}

header report_t {
    bit<8> instance_type;
    bit<8> egress_rid;
    bit<16> ingress_port;
    bit<16> packet_length;
    bit<8> kept;
    bit<8> parsed_instance;
    bit<8> lost;
    bit<72> wide;
}

struct headers_t {
    report_t report;
    order_t order;
}

struct metadata_t {
    @field_list(1, 2) bit<8> kept;
    @field_list(2) bit<72> wide;
    bit<8> lost;
    bit<8> parsed_instance;
}

const bit<8> CLONE = 1;
const bit<8> CLONE_WIDE = 2;
const bit<8> CLONE_AND_DROP = 3;
const bit<8> RESUBMIT = 4;
const bit<8> CLONE_AND_RESUBMIT = 5;
const bit<8> RECIRCULATE = 6;
const bit<8> CLONE_AND_FLOOD = 7;
const bit<8> LAST_CLONE_COUNTS = 8;

const bit<32> NORMAL = 0;
const bit<32> RESUBMITTED = 6;

parser PathParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        meta.parsed_instance = (bit<8>)sm.instance_type;
        packet.extract(hdr.order);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PathIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        bit<8> before = meta.kept;
        meta.kept = before + 1;
        meta.wide = 72w0x11_2233_4455_6677_8899;
        meta.lost = 0xff;
        sm.egress_spec = 1;
        if (hdr.order.in_ingress == CLONE) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.order.session, 1);
            // A clone shows the packet as it came, with preserved fields as they are at ingress's end.
            hdr.order.mark = 0xdead;
            meta.kept = 0x40;
        } else if (hdr.order.in_ingress == CLONE_WIDE) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.order.session, 2);
        } else if (hdr.order.in_ingress == CLONE_AND_DROP) {
            clone(CloneType.I2E, (bit<32>)hdr.order.session);
            mark_to_drop(sm);
        } else if (hdr.order.in_ingress == RESUBMIT) {
            if (before < hdr.order.rounds) {
                hdr.order.mark = 0xdead;
                resubmit_preserving_field_list(1);
            }
        } else if (hdr.order.in_ingress == CLONE_AND_RESUBMIT) {
            if (sm.instance_type == NORMAL) {
                clone(CloneType.I2E, (bit<32>)hdr.order.session);
                resubmit_preserving_field_list(2);
            }
        } else if (hdr.order.in_ingress == CLONE_AND_FLOOD) {
            clone(CloneType.I2E, (bit<32>)hdr.order.session);
            sm.mcast_grp = 9;
        } else if (hdr.order.in_ingress == LAST_CLONE_COUNTS) {
            clone(CloneType.I2E, 100);
            clone(CloneType.I2E, (bit<32>)hdr.order.session);
        }
    }
}

control PathEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.order.in_egress == RECIRCULATE && hdr.order.rounds > 0) {
            hdr.order.rounds = hdr.order.rounds - 1;
            hdr.order.mark = hdr.order.mark + 1;
            recirculate_preserving_field_list(1);
        } else if (hdr.order.in_egress == RECIRCULATE && hdr.order.session == 0xff) {
            // For ever.
            recirculate_preserving_field_list(1);
        } else {
            hdr.report.setValid();
            hdr.report.instance_type = (bit<8>)sm.instance_type;
            hdr.report.egress_rid = (bit<8>)sm.egress_rid;
            hdr.report.ingress_port = (bit<16>)sm.ingress_port;
            hdr.report.packet_length = (bit<16>)sm.packet_length;
            hdr.report.kept = meta.kept;
            hdr.report.parsed_instance = meta.parsed_instance;
            hdr.report.lost = meta.lost;
            hdr.report.wide = meta.wide;
            if (sm.instance_type == NORMAL || sm.instance_type == RESUBMITTED) {
                if (hdr.order.in_egress == CLONE) {
                    clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.order.session, 2);
                } else if (hdr.order.in_egress == CLONE_AND_DROP) {
                    clone(CloneType.E2E, (bit<32>)hdr.order.session);
                    mark_to_drop(sm);
                }
            }
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control PathDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.order);
    }
}

V1Switch(PathParser(), Verify(), PathIngress(), PathEgress(), Update(), PathDeparser()) main;
