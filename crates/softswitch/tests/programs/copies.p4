// SPDX-License-Identifier: Apache-2.0
//
// Copies and further passes as tables order them: multicast with instances, clones at the end of ingress and egress,
// resubmission, recirculation and truncation, alone and together, with fields that are preserved.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> ingress_order;
    bit<8> egress_order;
    bit<8> passes;
    bit<8> mark;
    bit<16> length;
}

header extra_t {
    bit<32> value;
}

header report_t {
    bit<8> instance_type;
    bit<16> rid;
    bit<16> egress_port;
    bit<16> packet_length;
    bit<16> kept;
    bit<72> wide;
    bit<16> ingress_port;
    bit<8> flag;
}

struct headers_t {
    report_t report;
    request_t request;
    extra_t extra;
}

struct metadata_t {
    @field_list(1, 3) bit<16> kept;
    @field_list(2, 3) bit<72> wide;
    @field_list(3) bool flag;
    bit<16> lost;
}

parser CopyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.mark) {
            1: extra;
            default: accept;
        }
    }
    state extra {
        packet.extract(hdr.extra);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CopyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action send(bit<9> port) {
        sm.egress_spec = port;
    }
    action flood(bit<16> group) {
        sm.mcast_grp = group;
    }
    action clone_and_send(bit<9> port, bit<32> session) {
        sm.egress_spec = port;
        meta.flag = true;
        clone_preserving_field_list(CloneType.I2E, session, 3);
        hdr.request.mark = 0xc1;
    }
    action clone_and_flood(bit<16> group, bit<32> session) {
        sm.mcast_grp = group;
        clone(CloneType.I2E, session);
    }
    action clone_and_drop(bit<32> session) {
        clone_preserving_field_list(CloneType.I2E, session, 1);
        mark_to_drop(sm);
    }
    action again(bit<9> port) {
        sm.egress_spec = port;
        hdr.request.passes = hdr.request.passes - 1;
        meta.kept = meta.kept + 0x100;
        resubmit_preserving_field_list(1);
    }
    action cut(bit<9> port) {
        sm.egress_spec = port;
        truncate((bit<32>)hdr.request.length);
    }
    action grow(bit<9> port) {
        sm.egress_spec = port;
        hdr.extra.setValid();
        hdr.extra.value = 0x01020304;
    }
    action drop() {
        mark_to_drop(sm);
    }
    table orders {
        key = { hdr.request.ingress_order: exact; }
        actions = { send; flood; clone_and_send; clone_and_flood; clone_and_drop; cut; grow; drop; }
        size = 64;
        default_action = send(1);
    }
    apply {
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        meta.wide = 72w0x99_0000_0000_0000_0000 + (bit<72>)sm.ingress_port;
        meta.lost = 0xffff;
        if (sm.instance_type == 0) {
            meta.kept = (bit<16>)hdr.request.mark;
        }
        if (hdr.request.ingress_order & 0x40 != 0 && (meta.kept >> 8) < (bit<16>)(hdr.request.passes & 3)) {
            again(2);
        } else {
            orders.apply();
        }
    }
}

control CopyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action leave() {
    }
    action clone_it(bit<32> session) {
        clone_preserving_field_list(CloneType.E2E, session, 2);
    }
    action clone_and_drop(bit<32> session) {
        clone_preserving_field_list(CloneType.E2E, session, 3);
        mark_to_drop(sm);
    }
    action cut() {
        truncate((bit<32>)hdr.request.length);
    }
    action cut_and_clone(bit<32> session) {
        truncate((bit<32>)hdr.request.length);
        clone(CloneType.E2E, session);
    }
    action round() {
        hdr.request.passes = hdr.request.passes - 1;
        hdr.extra.setValid();
        hdr.extra.value = 0xa0a0a0a0;
        recirculate_preserving_field_list(3);
    }
    action drop() {
        mark_to_drop(sm);
    }
    table orders {
        key = { hdr.request.egress_order: exact; }
        actions = { leave; clone_it; clone_and_drop; cut; cut_and_clone; drop; }
        size = 64;
        default_action = leave();
    }
    apply {
        if (sm.instance_type == 1 || sm.instance_type == 2) {
            leave();
        } else if (hdr.request.egress_order & 0x40 != 0 && hdr.request.passes & 3 != 0) {
            round();
        } else {
            orders.apply();
        }
        if (hdr.request.passes & 0x80 != 0) {
            hdr.request.setInvalid();
        }
        hdr.report.setValid();
        hdr.report.instance_type = (bit<8>)sm.instance_type;
        hdr.report.rid = sm.egress_rid;
        hdr.report.egress_port = (bit<16>)sm.egress_port;
        hdr.report.packet_length = (bit<16>)sm.packet_length;
        hdr.report.kept = meta.kept;
        hdr.report.wide = meta.wide;
        hdr.report.ingress_port = (bit<16>)sm.ingress_port;
        hdr.report.flag = meta.flag ? 8w1 : 0;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control CopyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        // A packet that goes round has its request in front.
        packet.emit(hdr.request);
        packet.emit(hdr.extra);
        packet.emit(hdr.report);
    }
}

V1Switch(CopyParser(), Verify(), CopyIngress(), CopyEgress(), Update(), CopyDeparser()) main;
