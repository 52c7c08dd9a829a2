// SPDX-License-Identifier: Apache-2.0
//
// A plain L2 switch: it sends a frame where its destination address says, and floods what it does not know.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoVerification(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    direct_counter(CounterType.packets_and_bytes) carried;

    action forward(bit<9> port) {
        carried.count();
        standard.egress_spec = port;
    }

    action flood(bit<16> group) {
        carried.count();
        standard.mcast_grp = group;
    }

    action drop() {
        carried.count();
        mark_to_drop(standard);
    }

    table destinations {
        key = { hdr.ethernet.destination: exact; }
        actions = { forward; flood; drop; }
        default_action = drop();
        counters = carried;
        size = 1024;
    }

    apply {
        destinations.apply();
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        // Nothing goes back to where it came from.
        if (standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control NoUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(SwitchParser(), NoVerification(), SwitchIngress(), SwitchEgress(), NoUpdate(), SwitchDeparser()) main;
