// SPDX-License-Identifier: Apache-2.0
//
// Expressions and statements: numbers with and without a sign, narrow and wide, booleans, slices, casts, enumerations,
// functions, tuples, loops, and actions that call each other.
#include <core.p4>
#include <v1model.p4>

enum bit<8> Kind {
    FIRST = 0x10,
    SECOND = 0x20,
    THIRD = 0x21
}

enum Way { LEFT, RIGHT }

header request_t {
    bit<8> way;
    bit<16> a;
    bit<16> b;
    int<16> s;
    int<16> t;
    bit<8> shift;
    int<72> wide_signed;
    bit<72> wide;
    bit<130> wider;
    bit<6> six;
    bool yes;
    bool no;
    Kind kind;
    bit<6> pad;
}

header report_t {
    bit<16> r0;
    bit<16> r1;
    int<16> s0;
    int<72> ws;
    bit<72> w;
    bit<130> ww;
    bit<6> six;
    bool yes;
    bool no;
    int<8> small;
    Kind kind;
    bit<6> pad;
}

struct headers_t {
    report_t report;
    request_t request;
}

struct pair_t {
    bit<16> one;
    bit<16> other;
}

struct metadata_t {
    pair_t pair;
    pair_t copy;
}

bit<16> larger(in bit<16> a, in bit<16> b) {
    if (a > b) {
        return a;
    }
    return b;
}

void exchange(inout bit<16> a, inout bit<16> b) {
    bit<16> kept = a;
    a = b;
    b = kept;
}

parser ArithmeticParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ArithmeticIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action plain() {
        hdr.report.r0 = hdr.request.a + hdr.request.b;
        hdr.report.r1 = hdr.request.a - hdr.request.b;
        hdr.report.s0 = hdr.request.s * hdr.request.t;
        hdr.report.w = (bit<72>)(hdr.request.a * hdr.request.b) << 9;
        hdr.report.six = -hdr.request.six;
    }
    action bounded() {
        hdr.report.r0 = hdr.request.a |+| hdr.request.b;
        hdr.report.r1 = hdr.request.a |-| hdr.request.b;
        hdr.report.s0 = hdr.request.s |+| hdr.request.t;
        hdr.report.small = (int<8>)(hdr.request.s |-| hdr.request.t);
        hdr.report.six = hdr.request.six |+| 6w40;
    }
    action wide() {
        hdr.report.w = hdr.request.wide + hdr.request.wider[71:0];
        hdr.report.ws = hdr.request.wide_signed - (int<72>)(bit<72>)hdr.request.wide;
        hdr.report.ww = hdr.request.wider - (bit<130>)hdr.request.wide;
        hdr.report.s0 = (int<16>)hdr.request.wide_signed;
    }
    action wide_products() {
        hdr.report.w = hdr.request.wide * (bit<72>)hdr.request.a;
        hdr.report.ws = hdr.request.wide_signed * (int<72>)hdr.request.s;
        hdr.report.ww = hdr.request.wider * hdr.request.wider;
    }
    action wide_bounded() {
        hdr.report.w = hdr.request.wide |+| hdr.request.wider[129:58];
        hdr.report.ws = hdr.request.wide_signed |-| (int<72>)hdr.request.s;
        hdr.report.ww = hdr.request.wider |-| (bit<130>)hdr.request.wide;
    }
    action shifts() {
        hdr.report.r0 = hdr.request.a << hdr.request.shift;
        hdr.report.r1 = hdr.request.a >> hdr.request.shift;
        hdr.report.s0 = hdr.request.s >> hdr.request.shift;
        hdr.report.w = hdr.request.wide << hdr.request.shift;
        hdr.report.ws = hdr.request.wide_signed >> hdr.request.shift;
        hdr.report.ww = hdr.request.wider >> hdr.request.shift;
        hdr.report.small = (int<8>)hdr.request.s << 3;
    }
    action bits() {
        hdr.report.r0 = hdr.request.a & ~hdr.request.b;
        hdr.report.r1 = hdr.request.a ^ hdr.request.b | 0x0100;
        hdr.report.w = ~hdr.request.wide ^ hdr.request.wider[100:29];
        hdr.report.ww = ~hdr.request.wider & (hdr.request.wide ++ 58w0x3_3333);
        hdr.report.six = hdr.request.a[9:4] ^ hdr.request.wide[70:65];
        hdr.report.ws = hdr.request.wide_signed & (int<72>)hdr.request.t;
    }
    action slices() {
        hdr.report.r0[11:4] = hdr.request.a[7:0];
        hdr.report.r1 = hdr.request.a;
        hdr.report.r1[0:0] = hdr.request.b[15:15];
        hdr.report.w[70:55] = hdr.request.b;
        hdr.report.ww[129:66] = hdr.request.wide[63:0];
        hdr.report.ww[7:0] = hdr.request.shift;
        hdr.report.six = hdr.request.six;
        hdr.report.six[3:2] = hdr.request.shift[1:0];
    }
    action comparisons() {
        hdr.report.r0[0:0] = (bit<1>)(hdr.request.a < hdr.request.b);
        hdr.report.r0[1:1] = (bit<1>)(hdr.request.s < hdr.request.t);
        hdr.report.r0[2:2] = (bit<1>)(hdr.request.s >= -3);
        hdr.report.r0[3:3] = (bit<1>)(hdr.request.wide <= hdr.request.wider[71:0]);
        hdr.report.r0[4:4] = (bit<1>)(hdr.request.wide_signed > (int<72>)hdr.request.t);
        hdr.report.r0[5:5] = (bit<1>)(hdr.request.wider != 5);
        hdr.report.r0[6:6] = (bit<1>)(hdr.request.wide_signed == -1);
        hdr.report.r0[7:7] = (bit<1>)(hdr.request.kind == Kind.SECOND);
        hdr.report.yes = hdr.request.yes && !hdr.request.no || hdr.request.a == hdr.request.b;
        hdr.report.no = hdr.request.yes != hdr.request.no;
        hdr.report.s0 = hdr.request.yes ? hdr.request.s : hdr.request.t;
        hdr.report.w = hdr.request.wide > 3 ? hdr.request.wide : (hdr.request.no ? 72w1 : 72w2);
        hdr.report.kind = hdr.request.kind == Kind.FIRST ? Kind.THIRD : hdr.request.kind;
    }
    action casts() {
        hdr.report.r0 = (bit<16>)(bit<4>)hdr.request.a;
        hdr.report.s0 = (int<16>)(int<4>)(bit<4>)hdr.request.a;
        hdr.report.ws = (int<72>)hdr.request.s;
        hdr.report.w = (bit<72>)(bit<16>)hdr.request.s;
        hdr.report.ww = (bit<130>)(bit<72>)hdr.request.wide_signed;
        hdr.report.small = (int<8>)hdr.request.t;
        hdr.report.yes = (bool)hdr.request.a[3:3];
        hdr.report.six = (bit<6>)(bit<8>)hdr.request.kind;
        hdr.report.kind = (Kind)(bit<8>)hdr.request.a;
    }
    action give(in bit<16> from, out bit<16> to) {
        to = from + 1;
    }
    action structures() {
        meta.pair = { hdr.request.a, hdr.request.b };
        meta.copy = meta.pair;
        exchange(meta.copy.one, meta.copy.other);
        hdr.report.r0 = larger(meta.copy.one, 7);
        give(meta.copy.other, hdr.report.r1);
        hdr.report.yes = meta.copy == meta.pair;
        tuple<bit<16>, bool> both = { hdr.request.a, hdr.request.no };
        hdr.report.no = both[1];
    }
    action loops() {
        bit<8> rounds = hdr.request.shift & 15;
        for (bit<8> i = 0; i < rounds; i = i + 1) {
            if (i == 3) {
                continue;
            }
            if (i == 11) {
                break;
            }
            hdr.report.r0 = hdr.report.r0 + (bit<16>)i;
            for (bit<8> j = 1; j <= 3; j = j + 1) {
                hdr.report.r1 = hdr.report.r1 + (bit<16>)(i * j);
            }
        }
    }
    table ways {
        key = { hdr.request.way: exact; }
        actions = {
            plain; bounded; wide; wide_products; wide_bounded; shifts; bits; slices; comparisons; casts; structures; loops;
            NoAction;
        }
        const default_action = NoAction();
        const entries = {
            0: plain();
            1: bounded();
            2: wide();
            3: wide_products();
            4: wide_bounded();
            5: shifts();
            6: bits();
            7: slices();
            8: comparisons();
            9: casts();
            10: structures();
            11: loops();
        }
    }
    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        ways.apply();
        if (hdr.request.way == 12) {
            Way chosen = hdr.request.yes ? Way.LEFT : Way.RIGHT;
            if (chosen == Way.RIGHT) {
                hdr.report.r0 = 1;
            }
            switch (hdr.request.kind) {
                Kind.FIRST: { hdr.report.r1 = 1; }
                Kind.SECOND: { hdr.report.r1 = 2; }
                default: { hdr.report.r1 = 3; }
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

control ArithmeticDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
    }
}

V1Switch(ArithmeticParser(), Verify(), ArithmeticIngress(), NoEgress(), Update(), ArithmeticDeparser()) main;
