// SPDX-License-Identifier: Apache-2.0
//
// Parsers: every error, fields of variable length, lookahead, keys under masks and of several fields, value sets, sub-parsers
// and variables.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<4> high;
    bit<4> low;
    bool flag;
    bit<7> rest;
    bit<16> word;
}

header options_t {
    bit<8> count;
    varbit<64> data;
}

header nibbles_t {
    bit<4> count;
    bit<4> kind;
    varbit<40> data;
}

header tag_t {
    bit<16> kind;
    bit<16> value;
}

header report_t {
    bit<8> error_code;
    bit<8> visited;
    bit<16> ahead;
    bit<32> sum;
}

error { OwnError, OtherError }

struct ahead_t {
    bit<4> first;
    bit<12> second;
}

struct headers_t {
    report_t report;
    request_t request;
    options_t options;
    nibbles_t nibbles;
    tag_t tag;
    tag_t inner;
}

struct metadata_t {
    bit<16> ahead;
    bit<8> visited;
    bit<32> sum;
}

parser TagParser(packet_in packet, out tag_t tag, inout bit<32> sum, inout bit<8> visited) {
    state start {
        packet.extract(tag);
        sum = sum + (bit<32>)tag.value;
        transition select(tag.kind, tag.value) {
            (0x0001, _): marked;
            (0x0002 &&& 0x00ff, 0x0000 &&& 0x8001): marked;
            (3..5, _): ranged;
            (_, 6): ranged;
            default: accept;
        }
    }
    state marked {
        visited = visited | 1;
        transition accept;
    }
    state ranged {
        visited = visited | 2;
        transition accept;
    }
}

parser ParsingParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<16>>(4) words;
    TagParser() tags;

    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.way) {
            1: options;
            2: nibbles;
            3: verified;
            4: looked_ahead;
            5: tag;
            6: no_match;
            7: skipped;
            8: set_of_values;
            9: nibble_key;
            10: advanced_far;
            11: flagged;
            default: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)packet.lookahead<bit<8>>());
        transition accept;
    }
    state nibbles {
        bit<8> first = packet.lookahead<bit<8>>();
        packet.extract(hdr.nibbles, (bit<32>)first[7:4] * 8);
        transition select(hdr.nibbles.kind) {
            1: tag;
            default: accept;
        }
    }
    state verified {
        verify(hdr.request.high != 0, error.OwnError);
        verify(hdr.request.low < hdr.request.high, error.OtherError);
        transition accept;
    }
    state looked_ahead {
        ahead_t ahead = packet.lookahead<ahead_t>();
        meta.ahead = ahead.second ++ ahead.first;
        transition select(ahead.first) {
            1: tag;
            2: two_tags;
            default: accept;
        }
    }
    state two_tags {
        tags.apply(packet, hdr.inner, meta.sum, meta.visited);
        transition tag;
    }
    state tag {
        tags.apply(packet, hdr.tag, meta.sum, meta.visited);
        transition accept;
    }
    state no_match {
        transition select(hdr.request.word) {
            0: tag;
            0x100 &&& 0xff00: accept;
        }
    }
    state skipped {
        packet.advance((bit<32>)hdr.request.low * 8);
        packet.extract(hdr.tag);
        transition accept;
    }
    state set_of_values {
        transition select(hdr.request.word) {
            words: tag;
            default: accept;
        }
    }
    state nibble_key {
        transition select(hdr.request.high, hdr.request.low, hdr.request.word) {
            (1, 1, 1): tag;
            (2, _, 0x00ff &&& 0x0f0f): two_tags;
            (3 &&& 3, 4 &&& 4, _): looked_ahead;
            default: accept;
        }
    }
    state advanced_far {
        packet.advance((bit<32>)hdr.request.word);
        transition accept;
    }
    state flagged {
        transition select(hdr.request.flag) {
            true: tag;
            false: accept;
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ParsingIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 3;
        hdr.report.setValid();
        hdr.report.visited = meta.visited;
        hdr.report.ahead = meta.ahead;
        hdr.report.sum = meta.sum;
        if (sm.parser_error == error.NoError) {
            hdr.report.error_code = 0;
        } else if (sm.parser_error == error.PacketTooShort) {
            hdr.report.error_code = 1;
        } else if (sm.parser_error == error.NoMatch) {
            hdr.report.error_code = 2;
        } else if (sm.parser_error == error.HeaderTooShort) {
            hdr.report.error_code = 3;
        } else if (sm.parser_error == error.ParserInvalidArgument) {
            hdr.report.error_code = 4;
        } else if (sm.parser_error == error.OwnError) {
            hdr.report.error_code = 5;
        } else {
            hdr.report.error_code = 6;
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ParsingDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.tag);
        packet.emit(hdr.nibbles);
        packet.emit(hdr.options);
        packet.emit(hdr.request);
        packet.emit(hdr.inner);
    }
}

V1Switch(ParsingParser(), Verify(), ParsingIngress(), NoEgress(), Update(), ParsingDeparser()) main;
