// SPDX-License-Identifier: Apache-2.0
//
// Every algorithm of v1model, over fields of odd widths, headers that may be missing, constants and a field of variable
// length, within bounds.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<3> odd;
    bit<13> number;
    int<16> signed_number;
    bit<72> wide;
    bit<8> rest;
    bit<16> base;
    bit<16> max;
}

header options_t {
    bit<8> bytes;
    varbit<64> data;
}

header report_t {
    bit<64> r0;
    bit<32> r1;
    bit<16> r2;
    bit<100> r3;
    bit<4> r4;
}

struct headers_t {
    report_t report;
    request_t request;
    options_t options;
}

struct metadata_t {
}

struct input_t {
    bit<3> odd;
    bit<72> wide;
}

parser HashParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.rest) {
            0x40 &&& 0x40: accept;
            default: options;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)(packet.lookahead<bit<8>>() & 7) << 3);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control HashIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        if (hdr.request.way == 0) {
            hash(hdr.report.r1, HashAlgorithm.crc32, 32w0, { hdr.request.odd, hdr.request.wide }, 64w0x1_0000_0000);
            hash(hdr.report.r0, HashAlgorithm.crc32, 64w7, { hdr.request.signed_number, hdr.request.rest }, 64w1000);
        } else if (hdr.request.way == 1) {
            hash(hdr.report.r2, HashAlgorithm.crc16, 16w0, { hdr.request.number, hdr.request.odd }, 32w0x10000);
            hash(hdr.report.r1, HashAlgorithm.crc16, 32w3, { hdr.request.wide, hdr.request.number }, 32w17);
        } else if (hdr.request.way == 2) {
            hash(hdr.report.r1, HashAlgorithm.crc32_custom, 32w0, { hdr.request.wide, 5w3 }, 64w0x1_0000_0000);
            hash(hdr.report.r2, HashAlgorithm.crc16_custom, 16w0, { hdr.request.wide, 11w9 }, 32w0x10000);
        } else if (hdr.request.way == 3) {
            hash(hdr.report.r2, HashAlgorithm.csum16, 16w0, { hdr.request.wide, hdr.request.odd, hdr.request.number }, 32w0x10000);
            hash(hdr.report.r0, HashAlgorithm.csum16, 64w0, { hdr.request.odd }, 64w0x10000);
        } else if (hdr.request.way == 4) {
            hash(hdr.report.r2, HashAlgorithm.xor16, 16w0, { hdr.request.wide, hdr.request.number }, 32w0x10000);
            hash(hdr.report.r3, HashAlgorithm.xor16, 100w1, { hdr.request.odd }, 64w0x10000);
        } else if (hdr.request.way == 5) {
            hash(hdr.report.r0, HashAlgorithm.identity, 64w0, { hdr.request.number, hdr.request.odd }, 64w0x1000_0000);
            hash(hdr.report.r1, HashAlgorithm.identity, 32w0, { hdr.request.signed_number, hdr.request.wide }, 64w0x1_0000_0000);
        } else if (hdr.request.way == 6) {
            // Bounds from the packet.
            hash(hdr.report.r2, HashAlgorithm.crc16, hdr.request.base, { hdr.request.wide }, hdr.request.max);
            hash(hdr.report.r4, HashAlgorithm.crc32, 4w1, { hdr.request.wide }, 8w5);
        } else if (hdr.request.way == 7 && hdr.options.isValid()) {
            hash(hdr.report.r1, HashAlgorithm.crc32, 32w0, { hdr.options.bytes, hdr.options.data, hdr.request.odd }, 64w0x1_0000_0000);
        } else if (hdr.request.way == 8) {
            hash(hdr.report.r1, HashAlgorithm.crc32, 32w0, hdr.request, 64w0x1_0000_0000);
        } else if (hdr.request.way == 9) {
            input_t input = { hdr.request.odd, hdr.request.wide };
            hash(hdr.report.r1, HashAlgorithm.crc32, 32w0, input, 64w0x1_0000_0000);
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control HashDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
        packet.emit(hdr.options);
    }
}

V1Switch(HashParser(), Verify(), HashIngress(), NoEgress(), Update(), HashDeparser()) main;
