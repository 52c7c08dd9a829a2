// SPDX-License-Identifier: Apache-2.0
//
// Packets from the controller and to it, each with a header of odd widths.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> way;
    bit<36> tag;
    bit<4> pad;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<3> reason;
    bit<36> tag;
    bit<16> length;
}

header request_t {
    bit<8> value;
}

struct headers_t {
    packet_out_t from_controller;
    packet_in_t to_controller;
    request_t request;
}

struct metadata_t {
}

parser ControllerParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        transition select(sm.ingress_port) {
            CPU_PORT: from_controller;
            default: request;
        }
    }
    state from_controller {
        packet.extract(hdr.from_controller);
        transition request;
    }
    state request {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControllerIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(512, CounterType.packets_and_bytes) sent;
    counter(16, CounterType.packets_and_bytes) values;
    apply {
        if (hdr.request.isValid()) {
            values.count((bit<32>)hdr.request.value);
        } else {
            mark_to_drop(sm);
            exit;
        }
        if (hdr.from_controller.isValid()) {
            sent.count((bit<32>)hdr.from_controller.egress_port);
            sm.egress_spec = hdr.from_controller.way == 1 ? CPU_PORT : hdr.from_controller.egress_port;
        } else {
            sm.egress_spec = hdr.request.value == 0 ? 9w1 : CPU_PORT;
        }
    }
}

control ControllerEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == CPU_PORT) {
            hdr.to_controller.setValid();
            hdr.to_controller.ingress_port = sm.ingress_port;
            hdr.to_controller.reason = (bit<3>)hdr.request.value;
            hdr.to_controller.tag = hdr.from_controller.isValid() ? hdr.from_controller.tag : 36w0xa_5a5a_5a5a;
            hdr.to_controller.length = (bit<16>)sm.packet_length;
        }
        hdr.from_controller.setInvalid();
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ControllerDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.to_controller);
        packet.emit(hdr.request);
    }
}

V1Switch(ControllerParser(), Verify(), ControllerIngress(), ControllerEgress(), Update(), ControllerDeparser()) main;
