// SPDX-License-Identifier: Apache-2.0
//
// Action profiles and selectors: entries that name members, and groups of which a hash chooses one.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<16> key;
    bit<32> flow;
    bit<13> odd;
    bit<3> rest;
}

header report_t {
    bit<16> chosen;
    bit<8> hit;
}

struct headers_t {
    report_t report;
    request_t request;
}

struct metadata_t {
}

parser SelectorParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SelectorIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) plain_hits;

    action choose(bit<16> value) {
        hdr.report.chosen = value;
    }
    action choose_port(bit<16> value, bit<9> port) {
        hdr.report.chosen = value;
        sm.egress_spec = port;
    }
    action nothing() {
    }

    action_profile(16) members;
    table plain {
        key = { hdr.request.key: exact; }
        actions = { choose; choose_port; nothing; }
        implementation = members;
        counters = plain_hits;
        size = 32;
    }
    action_selector(HashAlgorithm.crc16, 32, 14) by_crc16;
    table spread {
        key = {
            hdr.request.key: ternary;
            hdr.request.flow: selector;
            hdr.request.odd: selector;
        }
        actions = { choose; choose_port; nothing; }
        implementation = by_crc16;
        size = 32;
    }
    action_selector(HashAlgorithm.crc32, 32, 32) by_crc32;
    table spread_wider {
        key = {
            hdr.request.key: lpm;
            hdr.request.odd: selector;
            hdr.request.flow: selector;
        }
        actions = { choose; choose_port; }
        implementation = by_crc32;
        size = 32;
    }
    action_selector(HashAlgorithm.identity, 32, 16) by_identity;
    table spread_plainly {
        key = { hdr.request.way: exact; hdr.request.rest: exact; hdr.request.flow: selector; }
        actions = { choose; nothing; }
        implementation = by_identity;
        size = 32;
    }

    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        if (hdr.request.way == 0) {
            if (plain.apply().hit) {
                hdr.report.hit = 1;
            }
        } else if (hdr.request.way == 1) {
            switch (spread.apply().action_run) {
                choose: { hdr.report.hit = 1; }
                choose_port: { hdr.report.hit = 2; }
                default: { hdr.report.hit = 3; }
            }
        } else if (hdr.request.way == 2) {
            spread_wider.apply();
        } else if (hdr.request.way == 3) {
            if (!spread_plainly.apply().hit) {
                hdr.report.hit = 4;
            }
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SelectorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
    }
}

V1Switch(SelectorParser(), Verify(), SelectorIngress(), NoEgress(), Update(), SelectorDeparser()) main;
