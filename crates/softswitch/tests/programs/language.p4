// SPDX-License-Identifier: Apache-2.0
//
// What P4 has beyond what our own program uses: numbers with a sign, stacks with an index, header unions, fields of variable
// length, hashes. The packet says which, and brings operands; results come back in front of it.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> test;
    bit<8> index;
    int<16> a;
    int<16> b;
    int<100> w;
    bool flag;
    bit<3> rest;
}

header item_t {
    bit<16> value;
}

header small_t {
    bit<8> value;
}

header large_t {
    bit<8> kind;
    bit<16> value;
}

header_union tail_t {
    small_t small;
    large_t large;
}

header options_t {
    bit<4> words;
    bit<4> kind;
    varbit<120> data;
}

header answer_t {
    bit<16> r0;
    bit<16> r1;
    bit<32> r2;
    bit<64> r3;
    bit<100> w;
    bit<4> r4;
}

struct headers_t {
    answer_t answer;
    request_t request;
    item_t[4] items;
    tail_t tail;
    options_t options;
    options_t copy;
}

struct metadata_t {
    bit<128> ahead;
    bit<16> checksum;
}

parser LanguageParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.test, hdr.request.w) {
            (1, _): items;
            (2, _): tail;
            (3, _): options;
            (4, _): peek;
            (6, 1): items;
            (6, 0x7f &&& 0xff): tail;
            default: accept;
        }
    }
    state items {
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
    state tail {
        transition select(packet.lookahead<bit<8>>()) {
            0: large;
            default: small;
        }
    }
    state small {
        packet.extract(hdr.tail.small);
        transition accept;
    }
    state large {
        packet.extract(hdr.tail.large);
        transition accept;
    }
    state options {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<4>>() * 8);
        transition accept;
    }
    state peek {
        meta.ahead = packet.lookahead<bit<128>>();
        transition accept;
    }
}

control LanguageVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control LanguageIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action calculate() {
        hdr.answer.r0 = (bit<16>)(hdr.request.a + hdr.request.b);
        hdr.answer.r1 = (bit<16>)(hdr.request.a |+| hdr.request.b);
        hdr.answer.r2 = (bit<32>)(int<32>)hdr.request.a;
        hdr.answer.w = (bit<100>)(hdr.request.w >> hdr.request.index);
        hdr.answer.r4 = (bit<4>)(bit<1>)(hdr.request.a < hdr.request.b);
        hdr.request.flag = !hdr.request.flag;
    }
    action choose() {
        hdr.answer.r0 = hdr.items[hdr.request.index].value;
        hdr.items[hdr.request.index].value = (bit<16>)hdr.request.a;
    }
    action hash_all() {
        hash(hdr.answer.r2, HashAlgorithm.crc32, 32w0, { hdr.request.a, hdr.request.b }, 64w0x100000000);
        hash(hdr.answer.r0, HashAlgorithm.crc16, 16w0, { hdr.request.a, hdr.request.b }, 32w0x10000);
        hash(hdr.answer.r1, HashAlgorithm.csum16, 16w0, { hdr.request.a, hdr.request.b }, 32w0x10000);
        hash(hdr.answer.r3, HashAlgorithm.identity, 64w5, { hdr.request.rest, hdr.request.a }, 64w0x100);
        hash(hdr.answer.w, HashAlgorithm.xor16, 100w0, { hdr.request.a, hdr.request.b, 8w0xff }, 32w0x10000);
    }
    action chance() {
        random(hdr.answer.r2, (bit<32>)(bit<16>)hdr.request.a, (bit<32>)(bit<16>)hdr.request.b);
        truncate((bit<32>)hdr.request.index);
    }
    action time() {
        hdr.answer.r3 = (bit<64>)sm.ingress_global_timestamp;
        hdr.answer.r0 = (bit<16>)sm.deq_qdepth;
    }
    action loop() {
        for (bit<8> round = 0; round <= hdr.request.index; round = round + 1) {
            hdr.answer.r2 = hdr.answer.r2 + 3;
        }
        hdr.answer.r0 = 1;
    }
    action low_digit(bit<16> result) {
        hdr.answer.r0 = result;
    }
    table masked {
        key = { hdr.request.index & 0x0f: exact; }
        actions = { low_digit; NoAction; }
        const default_action = NoAction();
    }
    apply {
        sm.egress_spec = 2;
        hdr.answer.setValid();
        if (hdr.request.test == 0) {
            calculate();
        } else if (hdr.request.test == 1) {
            choose();
        } else if (hdr.request.test == 2) {
            if (hdr.tail.small.isValid()) {
                hdr.answer.r0 = (bit<16>)hdr.tail.small.value;
                hdr.tail.large.setValid();
                hdr.tail.large.value = 0x1234;
            } else {
                hdr.tail.small.setValid();
                hdr.tail.small.value = 0x77;
            }
        } else if (hdr.request.test == 3) {
            hdr.copy = hdr.options;
            hdr.copy.kind = 15;
        } else if (hdr.request.test == 4) {
            hdr.answer.w = meta.ahead[127:28];
            hdr.answer.r2 = meta.ahead[31:0];
        } else if (hdr.request.test == 5) {
            hash_all();
        } else if (hdr.request.test == 6) {
            hdr.answer.r0 = hdr.items[0].isValid() ? 16w1 : 0;
            hdr.answer.r1 = hdr.tail.small.isValid() ? 16w1 : 0;
        } else if (hdr.request.test == 7) {
            chance();
        } else if (hdr.request.test == 8) {
            time();
        } else if (hdr.request.test == 9) {
            log_msg("a is {}, b is {}", { hdr.request.a, hdr.request.b });
            assert(hdr.request.a != hdr.request.b);
            assume(hdr.request.a != hdr.request.b);
        } else if (hdr.request.test == 10) {
            masked.apply();
        } else if (hdr.request.test == 13) {
            loop();
        }
    }
}

control LanguageEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.request.test == 11) {
            hdr.answer.r2 = sm.packet_length;
        }
    }
}

control LanguageUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(hdr.request.test == 12, { hdr.request.a, hdr.request.b, hdr.copy.kind },
            hdr.answer.r0, HashAlgorithm.csum16);
        update_checksum(hdr.request.test == 12, { hdr.request.a, hdr.request.b }, hdr.answer.r2,
            HashAlgorithm.crc32);
    }
}

control LanguageDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.answer);
        packet.emit(hdr.request);
        packet.emit(hdr.items);
        packet.emit(hdr.tail);
        packet.emit(hdr.options);
        packet.emit(hdr.copy);
    }
}

V1Switch(LanguageParser(), LanguageVerify(), LanguageIngress(), LanguageEgress(), LanguageUpdate(), LanguageDeparser()) main;
