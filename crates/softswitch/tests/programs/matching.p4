// SPDX-License-Identifier: Apache-2.0
//
// Tables: every kind of match, alone and together, keys of more than 64 bits, signed and boolean keys, keys of validity,
// priorities, fixed and initial entries, default actions with arguments, direct counters, and ways on from a table.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<16> a;
    bit<16> b;
    int<12> signed_number;
    bool flag;
    bit<3> small;
    bit<128> address;
    bit<72> wide;
}

header extra_t {
    bit<8> value;
}

header report_t {
    bit<16> r0;
    bit<16> r1;
    bit<16> r2;
    bit<72> wide;
    bit<8> way;
    bit<8> more;
}

struct headers_t {
    report_t report;
    request_t request;
    extra_t extra;
}

struct metadata_t {
    bit<16> key;
}

parser MatchingParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.small) {
            7: extra;
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

control Inner(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (hdr.request.b == 3) {
            hdr.report.more = 3;
            return;
        }
        if (hdr.request.b == 4) {
            hdr.report.more = 4;
            exit;
        }
        hdr.report.more = 1;
    }
}

control MatchingIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) exact_hits;
    direct_counter(CounterType.packets) prefix_hits;
    direct_counter(CounterType.bytes) ternary_hits;
    direct_counter(CounterType.packets_and_bytes) wide_hits;
    Inner() inner;

    action first(bit<16> value) {
        hdr.report.r0 = value;
    }
    action second(bit<16> value, bit<9> port) {
        hdr.report.r1 = value;
        sm.egress_spec = port;
    }
    action third(bit<72> wide, bit<7> odd, bit<1> one) {
        hdr.report.wide = wide;
        hdr.report.r2 = odd ++ one ++ hdr.report.r2[7:0];
    }
    action drop() {
        mark_to_drop(sm);
    }
    action leave() {
        hdr.report.r0 = 0xeeee;
        exit;
    }

    table exact_keys {
        key = { hdr.request.a: exact; hdr.request.flag: exact; }
        actions = { first; second; drop; NoAction; }
        counters = exact_hits;
        size = 64;
        default_action = first(0x1111);
    }
    table signed_keys {
        key = { hdr.request.signed_number: exact; hdr.extra.isValid(): exact @name("extra"); }
        actions = { first; third; @defaultonly second; }
        size = 64;
        const default_action = second(7, 4);
    }
    table prefixes {
        key = { hdr.request.address: lpm; }
        actions = { first; second; third; }
        counters = prefix_hits;
        size = 64;
        default_action = third(1, 2, 1);
    }
    table short_prefixes {
        key = { hdr.request.small: exact; hdr.request.a: lpm; }
        actions = { first; second; NoAction; }
        size = 64;
    }
    table ternaries {
        key = { hdr.request.a: ternary; hdr.request.wide: ternary; hdr.request.flag: ternary; }
        actions = { first; second; third; leave; }
        counters = ternary_hits;
        size = 64;
    }
    table mixed {
        key = {
            hdr.request.a: range;
            hdr.request.b: optional;
            hdr.request.signed_number: ternary;
            hdr.request.address: lpm;
            hdr.request.small: exact;
        }
        actions = { first; second; third; NoAction; }
        counters = wide_hits;
        size = 64;
    }
    table ranges {
        key = { hdr.request.a: range; meta.key: range; }
        actions = { first; third; }
        size = 32;
    }
    table options {
        key = { hdr.request.a: optional; hdr.request.b: optional; }
        actions = { first; second; }
        size = 32;
    }
    table masked {
        key = { hdr.request.a & 0xf00f: exact @name("masked_a"); hdr.request.b[11:4]: exact @name("sliced_b"); hdr.request.a + 1: ternary @name("sum"); }
        actions = { first; third; }
        size = 64;
    }
    table fixed {
        key = { hdr.request.a: ternary; hdr.request.b: ternary; }
        actions = { first; second; }
        const default_action = first(0);
        const entries = {
            (1, _): first(1);
            (1 &&& 3, 2): second(2, 3);
            (_, 0xff00 &&& 0xff00): first(3);
            (_, 5): first(4);
        }
    }
    table fixed_prefixes {
        key = { hdr.request.a: lpm; }
        actions = { first; second; }
        const entries = {
            0x0000 &&& 0xfff8: first(8);
            0x0004 &&& 0xfffe: first(9);
            0x0005: second(10, 1);
        }
    }
    table initial {
        key = { hdr.request.b: exact; }
        actions = { first; second; drop; }
        size = 64;
        entries = {
            1: first(0x0101);
            2: second(0x0202, 5);
        }
        default_action = first(0x0303);
    }
    table keyless {
        actions = { first; second; NoAction; }
        default_action = NoAction();
    }

    apply {
        sm.egress_spec = 2;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        hdr.report.way = hdr.request.way;
        meta.key = hdr.request.b;
        if (hdr.request.way == 0) {
            exact_keys.apply();
        } else if (hdr.request.way == 1) {
            signed_keys.apply();
        } else if (hdr.request.way == 2) {
            if (prefixes.apply().hit) {
                hdr.report.more = 1;
            }
        } else if (hdr.request.way == 3) {
            if (short_prefixes.apply().miss) {
                hdr.report.more = 2;
            }
        } else if (hdr.request.way == 4) {
            switch (ternaries.apply().action_run) {
                first: { hdr.report.more = 1; }
                second:
                third: { hdr.report.more = 2; }
            }
        } else if (hdr.request.way == 5) {
            mixed.apply();
        } else if (hdr.request.way == 6) {
            ranges.apply();
        } else if (hdr.request.way == 7) {
            options.apply();
        } else if (hdr.request.way == 8) {
            masked.apply();
        } else if (hdr.request.way == 9) {
            fixed.apply();
            fixed_prefixes.apply();
        } else if (hdr.request.way == 10) {
            if (!initial.apply().hit) {
                hdr.report.more = 9;
            }
        } else if (hdr.request.way == 11) {
            keyless.apply();
        } else {
            inner.apply(hdr, meta);
            switch (hdr.request.b) {
                1: { hdr.report.r1 = 1; }
                2:
                6: { hdr.report.r1 = 6; }
                default: { hdr.report.r1 = 7; }
            }
        }
        hdr.report.r2 = hdr.report.r2 + 1;
    }
}

control MatchingEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets) left;
    action leaving(bit<8> value) {
        hdr.report.way = hdr.report.way ^ value;
        left.count();
    }
    table ports {
        key = { sm.egress_port: exact; hdr.report.way: ternary; }
        actions = { leaving; NoAction; }
        counters = left;
        size = 32;
        default_action = NoAction();
    }
    apply {
        ports.apply();
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MatchingDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
        packet.emit(hdr.extra);
    }
}

V1Switch(MatchingParser(), Verify(), MatchingIngress(), MatchingEgress(), Update(), MatchingDeparser()) main;
