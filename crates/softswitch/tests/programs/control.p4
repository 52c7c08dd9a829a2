// SPDX-License-Identifier: Apache-2.0
//
// What controllers see otherwise than packets carry it, and what they write besides entries: translated types, default
// entries with counters and meters, and a value set of two wide fields.
#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("tributary/port", string)
type bit<9> port_name_t;
@p4runtime_translation("tributary/flow", bit<32>)
type bit<16> flow_t;
@p4runtime_translation("tributary/class", bit<4>)
type bit<8> class_t;

@controller_header("packet_in")
header packet_in_t {
    port_name_t ingress_port;
    bit<7> pad;
    flow_t flow;
}

@controller_header("packet_out")
header packet_out_t {
    port_name_t egress_port;
    bit<7> pad;
}

header request_t {
    flow_t flow;
    class_t class;
    bit<56> left;
    bit<48> right;
}

header answer_t {
    bit<8> value;
    bit<8> entry_colour;
    bit<8> cell_colour;
    bit<8> in_set;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    answer_t answer;
    request_t request;
}

struct metadata_t {
    port_name_t port;
    bit<8> entry_colour;
    bit<8> cell_colour;
    bit<8> in_set;
}

struct pair_t {
    @match(exact)
    bit<56> left;
    @match(ternary)
    bit<48> right;
}

const bit<9> CPU_PORT = 510;

parser ControlParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    value_set<pair_t>(4) pairs;

    state start {
        meta.port = (port_name_t)sm.ingress_port;
        transition select(sm.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_request;
        }
    }

    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_request;
    }

    state parse_request {
        packet.extract(hdr.request);
        transition select(hdr.request.left, hdr.request.right) {
            pairs: in_set;
            default: accept;
        }
    }

    state in_set {
        meta.in_set = 1;
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControlIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) answers;
    direct_meter<bit<8>>(MeterType.packets) answer_rates;
    @name(".cells") meter(4, MeterType.packets) cells;

    action to_port(port_name_t port) {
        sm.egress_spec = (bit<9>)port;
    }

    action to_controller() {
        sm.egress_spec = CPU_PORT;
    }

    action answer(bit<8> value) {
        hdr.answer.value = value;
        answer_rates.read(meta.entry_colour);
    }

    table forward {
        key = {
            meta.port: exact @name("port");
            hdr.request.flow: exact @name("flow");
            hdr.request.class: optional @name("class");
        }
        actions = { to_port; to_controller; }
        size = 16;
    }

    table answering {
        key = { hdr.request.class: exact @name("class"); }
        actions = { answer; }
        default_action = answer(1);
        counters = answers;
        meters = answer_rates;
        size = 16;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            sm.egress_spec = (bit<9>)hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            hdr.answer.setValid();
            sm.egress_spec = sm.ingress_port;
            forward.apply();
            answering.apply();
            cells.execute_meter((bit<32>)(bit<8>)hdr.request.class & 3, meta.cell_colour);
            hdr.answer.entry_colour = meta.entry_colour;
            hdr.answer.cell_colour = meta.cell_colour;
            hdr.answer.in_set = meta.in_set;
        }
    }
}

control ControlEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (port_name_t)sm.ingress_port;
            hdr.packet_in.pad = 0;
            hdr.packet_in.flow = hdr.request.flow;
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControlDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.answer);
        packet.emit(hdr.request);
    }
}

V1Switch(ControlParser(), Verify(), ControlIngress(), ControlEgress(), Update(), ControlDeparser()) main;
