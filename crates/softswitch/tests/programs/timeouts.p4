// SPDX-License-Identifier: Apache-2.0
//
// Entries that the switch reports to the controller when no packet has hit them for some time.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> key;
    bit<16> other;
}

header report_t {
    bit<16> value;
}

struct headers_t {
    report_t report;
    request_t request;
}

struct metadata_t {
}

parser TimeoutParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TimeoutIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) hits;
    action show(bit<16> value) {
        hdr.report.value = value;
    }
    table exact_keys {
        key = { hdr.request.key: exact; }
        actions = { show; NoAction; }
        support_timeout = true;
        counters = hits;
        size = 32;
        default_action = NoAction();
    }
    table ternaries {
        key = { hdr.request.other: ternary; hdr.request.key: ternary; }
        actions = { show; NoAction; }
        support_timeout = true;
        size = 32;
        default_action = show(1);
    }
    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        if (!exact_keys.apply().hit) {
            ternaries.apply();
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control TimeoutDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
    }
}

V1Switch(TimeoutParser(), Verify(), TimeoutIngress(), NoEgress(), Update(), TimeoutDeparser()) main;
