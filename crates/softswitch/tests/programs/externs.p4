// SPDX-License-Identifier: Apache-2.0
//
// What a program remembers or tells, and what controllers give it: meters, action profiles, digests, idle timeouts, value
// sets and initial entries. The packet names what it wants, and takes the results away.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> kind;
    bit<8> meter;
    bit<8> key;
    bit<8> flow;
    bit<32> learned;
}

header answer_t {
    bit<8> special;
    bit<8> colour;
    bit<8> entry_colour;
    bit<8> chosen;
    bit<8> hit;
    bit<8> initial;
}

struct headers_t {
    request_t request;
    answer_t answer;
}

struct metadata_t {
    bit<8> special;
    bit<2> colour;
    bit<2> entry_colour;
}

struct learned_t {
    bit<8> flow;
    bit<72> wide;
    bool even;
}

parser ExternParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(2) specials;

    state start {
        packet.extract(hdr.request);
        transition select(hdr.request.kind) {
            specials: special;
            default: accept;
        }
    }
    state special {
        meta.special = 1;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ExternIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    meter(4, MeterType.packets) packet_meters;
    direct_meter<bit<2>>(MeterType.bytes) entry_meters;
    direct_counter(CounterType.packets_and_bytes) entry_counters;
    register<bit<72>>(8) wide_register;
    register<bit<16>>(8) narrow_register;

    action choose(bit<8> value) {
        hdr.answer.chosen = value;
    }
    action choose_port(bit<8> value, bit<9> port) {
        hdr.answer.chosen = value;
        sm.egress_spec = port;
    }
    action mark() {
        hdr.answer.hit = 1;
        entry_meters.read(meta.entry_colour);
        entry_counters.count();
    }
    action initial(bit<8> value) {
        hdr.answer.initial = value;
    }

    table metered {
        key = { hdr.request.key: exact; }
        actions = { mark; NoAction; }
        size = 8;
        meters = entry_meters;
        counters = entry_counters;
        default_action = NoAction();
    }

    action_profile(4) plain;
    table indirect {
        key = { hdr.request.key: exact; }
        actions = { choose; NoAction; }
        implementation = plain;
    }

    @max_group_size(6)
    action_selector(HashAlgorithm.crc16, 12, 14) spreader;
    table spread {
        key = {
            hdr.request.key: exact;
            hdr.request.flow: selector;
        }
        actions = { choose; choose_port; NoAction; }
        implementation = spreader;
    }

    table timed {
        key = { hdr.request.key: ternary; }
        actions = { NoAction; }
        support_timeout = true;
        default_action = NoAction();
    }

    table preset {
        key = { hdr.request.key: exact; }
        actions = { initial; NoAction; }
        size = 4;
        entries = {
            1: initial(11);
            2: initial(12);
        }
        default_action = NoAction();
    }

    direct_counter(CounterType.packets) fixed_counters;
    table fixed {
        key = { hdr.request.flow: exact; }
        actions = { initial; NoAction; }
        counters = fixed_counters;
        const entries = {
            99: initial(99);
        }
        default_action = NoAction();
    }

    apply {
        sm.egress_spec = sm.ingress_port;
        hdr.answer.setValid();
        hdr.answer.special = meta.special;
        if (hdr.request.meter != 0) {
            packet_meters.execute_meter((bit<32>)hdr.request.meter, meta.colour);
        }
        metered.apply();
        if (!indirect.apply().hit) {
            spread.apply();
        }
        timed.apply();
        preset.apply();
        fixed.apply();
        hdr.answer.colour = (bit<8>)meta.colour;
        hdr.answer.entry_colour = (bit<8>)meta.entry_colour;
        wide_register.write(1, 32w0 ++ hdr.request.learned ++ hdr.request.flow);
        narrow_register.write(2, hdr.request.key ++ hdr.request.flow);
        if (hdr.request.learned != 0) {
            digest<learned_t>(1, { hdr.request.flow, 40w0 ++ hdr.request.learned, hdr.request.flow & 1 == 0 });
        }
    }
}

control ExternEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply { }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ExternDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.answer);
        packet.emit(hdr.request);
    }
}

V1Switch(ExternParser(), Verify(), ExternIngress(), ExternEgress(), Update(), ExternDeparser()) main;
