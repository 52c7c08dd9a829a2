// SPDX-License-Identifier: Apache-2.0
//
// What a program remembers and tells: registers of many types, counters and meters, also at indices behind their ends, meters
// of entries, and digests. Colours and contents come back in front of the packet.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<8> index;
    bit<8> key;
    int<16> number;
    bit<72> wide;
}

header report_t {
    bit<72> wide;
    int<16> number;
    bit<8> colour;
    bit<8> entry_colour;
    bit<8> narrow;
    bit<8> told;
    bit<1> one;
    bit<7> rest;
}

struct headers_t {
    report_t report;
    request_t request;
}

struct metadata_t {
    bit<2> colour;
    bit<2> entry_colour;
}

struct seen_t {
    bit<8> key;
    bit<72> wide;
}

struct other_t {
    bit<3> low;
    bit<16> number;
}

parser StateParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StateIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<72>>(5) wide;
    register<int<16>>(6) numbers;
    register<bit<1>>(200) flags;
    register<bit<7>>(3) narrow;
    counter(6, CounterType.packets) packets;
    counter(7, CounterType.bytes) bytes;
    counter(8, CounterType.packets_and_bytes) both;
    meter(5, MeterType.packets) packet_meters;
    meter(6, MeterType.bytes) byte_meters;
    direct_meter<bit<2>>(MeterType.packets) entry_meters;
    direct_counter(CounterType.packets_and_bytes) entry_counters;

    action mark(bit<8> value) {
        entry_meters.read(meta.entry_colour);
        hdr.report.told = value;
    }
    action mark_and_drop_red() {
        entry_meters.read(meta.entry_colour);
        hdr.report.told = 0xdd;
    }
    table metered {
        key = { hdr.request.key: exact; }
        actions = { mark; mark_and_drop_red; NoAction; }
        meters = entry_meters;
        counters = entry_counters;
        size = 32;
        default_action = NoAction();
    }

    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            both.count(7);
            mark_to_drop(sm);
            exit;
        }
        bit<32> index = (bit<32>)hdr.request.index;
        hdr.report.setValid();
        hdr.report.narrow = 0x55;
        hdr.report.wide = 0xabcdef;
        meta.colour = 3;
        if (hdr.request.way == 0) {
            wide.read(hdr.report.wide, index);
            wide.write(index, hdr.report.wide + hdr.request.wide);
        } else if (hdr.request.way == 1) {
            // BMv2 would calculate with a number that it has read as if it had no sign.
            numbers.read(hdr.report.number, index);
            numbers.write(index, hdr.request.number |+| -7);
        } else if (hdr.request.way == 2) {
            flags.read(hdr.report.one, index);
            flags.write(index, ~hdr.report.one);
        } else if (hdr.request.way == 3) {
            bit<7> before = 0;
            narrow.read(before, index);
            narrow.write(index, before + 3);
            hdr.report.narrow = 1w1 ++ before;
        } else if (hdr.request.way == 4) {
            packets.count(index);
            bytes.count(index);
        } else if (hdr.request.way == 5) {
            both.count(index);
        } else if (hdr.request.way == 6) {
            packet_meters.execute_meter(index, meta.colour);
        } else if (hdr.request.way == 7) {
            byte_meters.execute_meter(index, meta.colour);
        } else if (hdr.request.way == 8) {
            metered.apply();
        } else if (hdr.request.way == 9) {
            digest<seen_t>(1, { hdr.request.key, hdr.request.wide });
        } else if (hdr.request.way == 10) {
            digest<other_t>(1, { hdr.request.key[2:0], (bit<16>)hdr.request.number });
        } else if (hdr.request.way == 11) {
            // An index of which only the lowest bits would be within the bounds.
            wide.write((index << 24) + 1, hdr.request.wide);
            both.count((index << 24) + 1);
        }
        hdr.report.colour = (bit<8>)meta.colour;
        hdr.report.entry_colour = (bit<8>)meta.entry_colour;
    }
}

control StateEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(512, CounterType.packets) ports;
    apply {
        ports.count((bit<32>)sm.egress_port);
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control StateDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
    }
}

V1Switch(StateParser(), Verify(), StateIngress(), StateEgress(), Update(), StateDeparser()) main;
