// SPDX-License-Identifier: Apache-2.0
//
// A firewall: ternary entries over addresses, protocol and ports say which packets pass, and to where.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  header_length;
    bit<8>  service;
    bit<16> total_length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment_offset;
    bit<8>  time_to_live;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header ports_t {
    bit<16> source;
    bit<16> destination;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
}

struct metadata_t { }

parser AclParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_ports;
            PROTOCOL_UDP: parse_ports;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control NoVerification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control AclIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets) matched;

    action permit(bit<9> port) {
        matched.count();
        standard.egress_spec = port;
    }

    action deny() {
        matched.count();
        mark_to_drop(standard);
    }

    table rules {
        key = {
            standard.ingress_port:  ternary;
            hdr.ipv4.source:        ternary;
            hdr.ipv4.destination:   ternary;
            hdr.ipv4.protocol:      ternary;
            hdr.ports.source:       ternary;
            hdr.ports.destination:  ternary;
        }
        actions = { permit; deny; }
        default_action = deny();
        counters = matched;
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            rules.apply();
        } else {
            mark_to_drop(standard);
        }
    }
}

control AclEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control AclDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
    }
}

V1Switch(AclParser(), NoVerification(), AclIngress(), AclEgress(), NoUpdate(), AclDeparser()) main;
