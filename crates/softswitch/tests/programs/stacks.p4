// SPDX-License-Identifier: Apache-2.0
//
// Header stacks: filled beyond their end, pushed and popped by more than they hold, read and written at an index that
// the packet names, and copied.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> order;
    bit<8> index;
    bit<16> value;
}

header item_t {
    bit<1> more;
    bit<15> value;
}

header wide_t {
    bit<100> value;
    bit<4> rest;
}

header report_t {
    bit<8> last;
    bit<8> valid;
    bit<16> seen;
    bit<8> error_code;
}

struct headers_t {
    report_t report;
    request_t request;
    item_t[4] items;
    item_t[4] copies;
    wide_t[2] wide;
}

struct metadata_t {
    bit<8> last;
    bool readable;
}

parser StackParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.order) {
            0x80 &&& 0x80: accept;
            default: items;
        }
    }
    state items {
        packet.extract(hdr.items.next);
        meta.last = (bit<8>)hdr.items.lastIndex;
        transition select(hdr.items.last.more) {
            1: items;
            default: wide;
        }
    }
    state wide {
        transition select(hdr.request.order) {
            0x40 &&& 0x40: two_wide;
            default: accept;
        }
    }
    state two_wide {
        packet.extract(hdr.wide.next);
        packet.extract(hdr.wide.next);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StackIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action push_one() {
        hdr.items.push_front(1);
        hdr.items[0].setValid();
        hdr.items[0] = { 1, 0x7123 };
    }
    action push_three() {
        hdr.items.push_front(3);
    }
    action push_all() {
        hdr.items.push_front(4);
        hdr.items[3].setValid();
        hdr.items[3] = { 0, 3 };
    }
    action pop_one() {
        hdr.items.pop_front(1);
    }
    action pop_three() {
        hdr.items.pop_front(3);
    }
    action pop_all() {
        hdr.items.pop_front(4);
    }
    action read_at() {
        hdr.report.seen = meta.readable ? (bit<16>)hdr.items[hdr.request.index].value : 0xffff;
    }
    action write_at() {
        hdr.items[hdr.request.index].value = (bit<15>)hdr.request.value;
        hdr.items[3 - hdr.request.index].more = 1;
    }
    action copy() {
        hdr.copies = hdr.items;
        hdr.copies[1].setInvalid();
    }
    action copy_one(bit<15> value) {
        hdr.copies[2] = hdr.items[hdr.request.index];
        hdr.copies[0].setValid();
        hdr.copies[0].value = value;
    }
    action swap() {
        item_t first = hdr.items[0];
        hdr.items[0] = hdr.items[1];
        hdr.items[1] = first;
    }
    action pop_wide() {
        hdr.wide.pop_front(1);
        hdr.wide[1].setValid();
        hdr.wide[1].value = (bit<100>)hdr.request.value << 77;
    }
    table orders {
        key = { hdr.request.order & 0x3f: exact @name("order"); }
        actions = {
            push_one; push_three; push_all; pop_one; pop_three; pop_all; read_at; write_at; copy; copy_one; swap; pop_wide;
            NoAction;
        }
        size = 64;
        const default_action = NoAction();
    }
    apply {
        sm.egress_spec = 1;
        hdr.report.setValid();
        if (sm.parser_error == error.StackOutOfBounds) {
            hdr.report.error_code = 1;
        } else if (sm.parser_error != error.NoError) {
            hdr.report.error_code = 2;
        }
        if (!hdr.request.isValid()) {
            exit;
        }
        hdr.request.index = hdr.request.index & 3;
        // What a header that is not there holds is not specified.
        meta.readable = hdr.items[0].isValid() && hdr.request.index <= meta.last;
        orders.apply();
        hdr.report.last = meta.last;
        if (hdr.items[0].isValid()) {
            hdr.report.valid = hdr.report.valid | 1;
        }
        if (hdr.items[1].isValid()) {
            hdr.report.valid = hdr.report.valid | 2;
        }
        if (hdr.items[2].isValid()) {
            hdr.report.valid = hdr.report.valid | 4;
        }
        if (hdr.items[3].isValid()) {
            hdr.report.valid = hdr.report.valid | 8;
        }
        if (hdr.copies[0] == hdr.items[0]) {
            hdr.report.valid = hdr.report.valid | 16;
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StackDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
        packet.emit(hdr.items);
        packet.emit(hdr.copies);
        packet.emit(hdr.wide);
    }
}

V1Switch(StackParser(), Verify(), StackIngress(), NoEgress(), Update(), StackDeparser()) main;
