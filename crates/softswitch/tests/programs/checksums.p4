// SPDX-License-Identifier: Apache-2.0
//
// Checksums that are verified and updated, of fields and of payloads, each where a condition holds.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> verified;
    bit<8> updated;
    bit<4> high;
    bit<12> number;
    bit<72> wide;
    bit<16> sum;
    bit<32> remainder;
    bit<16> of_payload;
}

header options_t {
    bit<8> bytes;
    varbit<32> data;
}

header report_t {
    bit<8> checksum_error;
    bit<16> sum;
    bit<32> remainder;
}

struct headers_t {
    report_t report;
    request_t request;
    options_t options;
}

struct metadata_t {
}

parser ChecksumParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.high) {
            8 &&& 8: options;
            default: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)(packet.lookahead<bit<8>>() & 3) << 3);
        transition accept;
    }
}

control VerifyChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.request.isValid() && hdr.request.verified == 1,
            { hdr.request.verified, hdr.request.updated, hdr.request.high, hdr.request.number }, hdr.request.sum, HashAlgorithm.csum16);
        verify_checksum(hdr.request.verified == 2, { hdr.request.number, hdr.request.high }, hdr.request.sum, HashAlgorithm.crc16);
        verify_checksum(hdr.request.verified == 3, { hdr.request.number, hdr.request.high }, hdr.request.remainder, HashAlgorithm.crc32);
        verify_checksum_with_payload(hdr.request.verified == 4, { hdr.request.updated }, hdr.request.of_payload, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.request.verified == 5, { 8w7 }, hdr.request.sum, HashAlgorithm.xor16);
    }
}

control ChecksumIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        hdr.report.checksum_error = (bit<8>)sm.checksum_error;
        if (hdr.request.updated == 0xff) {
            hdr.options.setInvalid();
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.request.updated == 1, { hdr.request.wide, hdr.request.high, hdr.request.number }, hdr.request.sum, HashAlgorithm.csum16);
        update_checksum(hdr.request.updated == 2, { hdr.request.wide, hdr.request.high }, hdr.request.remainder, HashAlgorithm.crc32);
        update_checksum(hdr.request.updated == 3, { hdr.request.wide }, hdr.report.sum, HashAlgorithm.crc16);
        update_checksum(hdr.request.updated == 4, { hdr.request.high }, hdr.report.sum, HashAlgorithm.xor16);
        update_checksum(hdr.request.updated == 5, { hdr.request.number, hdr.request.high }, hdr.report.remainder, HashAlgorithm.identity);
        update_checksum_with_payload(hdr.request.updated == 6, { hdr.request.number, hdr.request.high }, hdr.request.of_payload, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.request.updated == 7, { hdr.options.bytes, hdr.options.data }, hdr.request.remainder, HashAlgorithm.crc32);
        update_checksum_with_payload(hdr.request.updated == 8, { hdr.request.high }, hdr.request.of_payload, HashAlgorithm.csum16);
        update_checksum(hdr.request.updated == 9, { hdr.request.wide }, hdr.report.remainder, HashAlgorithm.crc32_custom);
        update_checksum(hdr.request.updated == 9, { hdr.request.wide }, hdr.report.sum, HashAlgorithm.crc16_custom);
    }
}

control ChecksumDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
        packet.emit(hdr.options);
    }
}

V1Switch(ChecksumParser(), VerifyChecksums(), ChecksumIngress(), NoEgress(), UpdateChecksums(), ChecksumDeparser()) main;
