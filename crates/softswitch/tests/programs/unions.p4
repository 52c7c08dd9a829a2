// SPDX-License-Identifier: Apache-2.0
//
// Header unions, and stacks of them: parsed, made valid, copied, compared and emitted.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> order;
    bit<8> value;
}

header small_t {
    bit<4> kind;
    bit<4> value;
}

header middle_t {
    bit<4> kind;
    bit<4> rest;
    bit<16> value;
}

header large_t {
    bit<4> kind;
    int<20> value;
    bit<64> more;
}

header_union item_t {
    small_t small;
    middle_t middle;
    large_t large;
}

header report_t {
    bit<8> valid;
    bit<8> members;
    bit<8> count;
    bit<8> error_code;
}

struct headers_t {
    report_t report;
    request_t request;
    item_t single;
    item_t other;
    item_t[3] items;
}

struct metadata_t {
}

parser UnionParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(packet.lookahead<bit<4>>()) {
            0: single_small;
            1: single_middle;
            2: single_large;
            3: items;
            default: accept;
        }
    }
    state single_small {
        packet.extract(hdr.single.small);
        transition items;
    }
    state single_middle {
        packet.extract(hdr.single.middle);
        transition items;
    }
    state single_large {
        packet.extract(hdr.single.large);
        transition items;
    }
    state items {
        transition select(packet.lookahead<bit<4>>()) {
            4 &&& 0xc: item_small;
            8 &&& 0xc: item_middle;
            12: item_large;
            13: item_large;
            default: accept;
        }
    }
    state item_small {
        packet.extract(hdr.items.next.small);
        transition items;
    }
    state item_middle {
        packet.extract(hdr.items.next.middle);
        transition items;
    }
    state item_large {
        bit<4> kind = packet.lookahead<bit<4>>();
        packet.extract(hdr.items.next.large);
        transition select(kind) {
            12: items;
            default: accept;
        }
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control UnionIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action make_small(bit<4> value) {
        hdr.single.small.setValid();
        hdr.single.small.kind = 0;
        hdr.single.small.value = value;
    }
    action make_middle(bit<16> value) {
        hdr.single.middle.setValid();
        hdr.single.middle = { 1, 5, value };
    }
    action make_large() {
        hdr.single.large.setValid();
        hdr.single.large.value = -(int<20>)(bit<20>)hdr.request.value;
        hdr.single.large.kind = 2;
        hdr.single.large.more = 64w0x1122_3344_5566_7788;
    }
    action take_away() {
        hdr.single.small.setInvalid();
        hdr.single.middle.setInvalid();
        hdr.single.large.setInvalid();
    }
    action copy() {
        hdr.other = hdr.single;
    }
    action copy_item() {
        hdr.other = hdr.items[1];
    }
    action change_items() {
        hdr.items[0].middle.setValid();
        hdr.items[0].middle = { 8, 0, 0xbeef };
        hdr.items[2].small.setInvalid();
    }
    table orders {
        key = { hdr.request.order: exact; }
        actions = { make_small; make_middle; make_large; take_away; copy; copy_item; change_items; NoAction; }
        size = 32;
        default_action = NoAction();
    }
    apply {
        sm.egress_spec = 2;
        if (!hdr.request.isValid()) {
            hdr.report.setValid();
            hdr.report.error_code = 0xff;
            exit;
        }
        orders.apply();
        hdr.report.setValid();
        if (sm.parser_error == error.StackOutOfBounds) {
            hdr.report.error_code = 1;
        } else if (sm.parser_error != error.NoError) {
            hdr.report.error_code = 2;
        }
        hdr.report.valid = 0;
        if (hdr.single.isValid()) {
            hdr.report.valid = hdr.report.valid | 1;
        }
        if (hdr.other.isValid()) {
            hdr.report.valid = hdr.report.valid | 2;
        }
        if (hdr.items[0].small.isValid() || hdr.items[0].middle.isValid() || hdr.items[0].large.isValid()) {
            hdr.report.valid = hdr.report.valid | 4;
        }
        if (hdr.items[1].small.isValid() || hdr.items[1].middle.isValid() || hdr.items[1].large.isValid()) {
            hdr.report.valid = hdr.report.valid | 8;
        }
        if (hdr.items[2].small.isValid() || hdr.items[2].middle.isValid() || hdr.items[2].large.isValid()) {
            hdr.report.valid = hdr.report.valid | 16;
        }
        if (hdr.single.small.isValid()) {
            hdr.report.members = hdr.report.members | 1;
        }
        if (hdr.single.middle.isValid()) {
            hdr.report.members = hdr.report.members | 2;
        }
        if (hdr.single.large.isValid()) {
            hdr.report.members = hdr.report.members | 4;
        }
        if (hdr.other.isValid() && hdr.other.middle.isValid() && hdr.other.middle.value > 2) {
            hdr.report.members = hdr.report.members | 8;
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control UnionDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
        packet.emit(hdr.single);
        packet.emit(hdr.other);
        packet.emit(hdr.items);
    }
}

V1Switch(UnionParser(), Verify(), UnionIngress(), NoEgress(), Update(), UnionDeparser()) main;
