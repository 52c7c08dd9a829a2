// SPDX-License-Identifier: Apache-2.0
//
// What the switch interprets beyond what our own program uses. The packet brings operands and takes
// results away.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> test;
    bit<8> flags;
    bit<16> a;
    bit<16> b;
    bit<32> c;
    bit<96> w;
    bit<96> x;
    bit<128> address;
}

header item_t {
    bit<1> more;
    bit<7> id;
}

header answer_t {
    bit<16> r0;
    bit<16> r1;
    bit<32> r2;
    bit<96> r3;
    bit<96> r4;
    bit<8> r5;
    bit<3> r6;
    bit<5> r7;
}

struct headers_t {
    request_t request;
    item_t[3] items;
    answer_t answer;
}

struct metadata_t {
    bit<8> next_byte;
}

error { OddRequest }

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        verify(hdr.request.test != 0xee, error.OddRequest);
        transition select(hdr.request.flags) {
            0x80 &&& 0x80: peek;
            default: accept;
        }
    }
    state peek {
        meta.next_byte = packet.lookahead<bit<8>>();
        transition items;
    }
    state items {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.more) {
            1: items;
            default: skip;
        }
    }
    state skip {
        packet.advance(16);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TestIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<96>>(4) wide_cells;
    register<bit<5>>(4) narrow_cells;
    direct_counter(CounterType.packets_and_bytes) prefix_hits;

    action narrow_arithmetic() {
        hdr.answer.r0 = hdr.request.a - hdr.request.b;
        hdr.answer.r1 = hdr.request.a |+| hdr.request.b;
        hdr.answer.r2 = hdr.request.a ++ hdr.request.b;
        hdr.answer.r3 = (bit<96>)(hdr.request.c * 3);
        hdr.answer.r4 = (bit<96>)hdr.request.c << (bit<8>)hdr.request.a;
        hdr.answer.r5 = hdr.request.a[11:4];
        hdr.answer.r6 = (bit<3>)(~hdr.request.a >> 2);
        hdr.answer.r7 = (bit<5>)(hdr.request.a |-| hdr.request.b);
    }

    action wide_arithmetic() {
        hdr.answer.r3 = hdr.request.w + hdr.request.x;
        hdr.answer.r4 = hdr.request.w - hdr.request.x;
        hdr.answer.r0 = hdr.request.w[39:24];
        hdr.answer.r1 = (bit<16>)(hdr.request.w >> (bit<8>)hdr.request.a);
        hdr.answer.r2 = (bit<32>)((~hdr.request.w ^ hdr.request.x) | 1);
    }

    action comparisons() {
        int<16> a = (int<16>)hdr.request.a;
        int<16> b = (int<16>)hdr.request.b;
        hdr.answer.r0 = a < b ? 16w1 : 16w2;
        hdr.answer.r1 = (bit<16>)(a >> 3);
        hdr.answer.r2 = hdr.request.w < hdr.request.x ? hdr.request.c : 0;
        hdr.answer.r3 = hdr.request.w == hdr.request.x ? hdr.request.w : hdr.request.x;
        hdr.answer.r5 = hdr.request.w >= hdr.request.x && hdr.request.a != hdr.request.b ? 8w1 : 8w0;
    }

    action cells() {
        bit<96> before;
        bit<5> small;
        wide_cells.read(before, (bit<32>)hdr.request.a);
        wide_cells.write((bit<32>)hdr.request.a, hdr.request.w);
        narrow_cells.read(small, (bit<32>)hdr.request.a);
        narrow_cells.write((bit<32>)hdr.request.a, small + 3);
        hdr.answer.r3 = before;
        hdr.answer.r7 = small;
    }

    action push_item() {
        hdr.items.push_front(1);
        hdr.items[0].setValid();
        hdr.items[0].id = 7w99;
        hdr.items[0].more = 1;
        hdr.answer.r5 = meta.next_byte;
    }

    action pop_item() {
        hdr.items.pop_front(1);
        hdr.answer.r5 = meta.next_byte;
    }

    action copy_item() {
        hdr.items[2] = hdr.items[0];
    }

    action stop() {
        hdr.answer.r0 = 1;
        exit;
    }

    table arithmetic {
        key = { hdr.request.test: exact; }
        actions = { narrow_arithmetic; wide_arithmetic; comparisons; cells; push_item; pop_item; copy_item; stop; NoAction; }
        const default_action = NoAction();
        const entries = {
            1: narrow_arithmetic();
            2: wide_arithmetic();
            3: comparisons();
            4: cells();
            5: push_item();
            6: pop_item();
            7: copy_item();
            8: stop();
        }
    }

    action answer(bit<16> value) {
        hdr.answer.r0 = value;
    }

    action answer_wide(bit<96> value, bit<8> small) {
        hdr.answer.r3 = value;
        hdr.answer.r5 = small;
    }

    table prefixes {
        key = { hdr.request.address: lpm @name("address"); }
        actions = { answer; answer_wide; NoAction; }
        counters = prefix_hits;
        size = 16;
    }

    table ternaries {
        key = {
            hdr.request.a: ternary @name("a");
            hdr.request.address: ternary @name("address");
        }
        actions = { answer; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4;
    }

    table ranges {
        key = {
            hdr.request.a: range @name("a");
            hdr.request.b: optional @name("b");
            hdr.request.test: exact @name("test");
        }
        actions = { answer; answer_wide; }
        size = 8;
    }

    table long_keys {
        key = {
            hdr.request.address: exact @name("address");
            hdr.request.a: exact @name("a");
            hdr.request.flags: exact @name("flags");
        }
        actions = { answer; }
        size = 8;
    }

    apply {
        hdr.answer.setValid();
        sm.egress_spec = sm.ingress_port + 1;
        if (sm.parser_error != error.NoError) {
            hdr.answer.r2 = 0xbad;
        }
        arithmetic.apply();
        if (hdr.request.test == 10) {
            if (prefixes.apply().hit) {
                hdr.answer.r1 = 1;
            } else {
                hdr.answer.r1 = 2;
            }
        } else if (hdr.request.test == 11) {
            ternaries.apply();
        } else if (hdr.request.test == 12) {
            switch (ranges.apply().action_run) {
                answer: { hdr.answer.r1 = 1; }
                answer_wide: { hdr.answer.r1 = 2; }
                default: { hdr.answer.r1 = 3; }
            }
        } else if (hdr.request.test == 13) {
            long_keys.apply();
        }
        hdr.answer.r2 = hdr.answer.r2 + 1;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {}
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.answer);
        packet.emit(hdr.items);
    }
}

V1Switch(TestParser(), NoVerify(), TestIngress(), NoEgress(), NoUpdate(), TestDeparser()) main;
