// SPDX-License-Identifier: Apache-2.0
//
// A small router, whose packets the log is tested with: prefixes, an access list, a register, a counter, checksums,
// copies to a group and to a session.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> length;
    bit<8> traffic_class;
    bit<16> total_length;
    bit<32> fragment;
    bit<8> time_to_live;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header label_t {
    bit<7> value;
    bit<1> last;
}

struct headers_t {
    ethernet_t ethernet;
    label_t[2] labels;
    ipv4_t ipv4;
}

struct metadata_t {
    bit<8> seen;
}

const bit<16> IPV4 = 0x800;
const bit<16> LABELS = 0x8847;

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            IPV4: ipv4;
            LABELS: labels;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.last) {
            0: labels;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control RouterVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.length, hdr.ipv4.traffic_class,
            hdr.ipv4.total_length, hdr.ipv4.fragment, hdr.ipv4.time_to_live, hdr.ipv4.protocol,
            hdr.ipv4.source, hdr.ipv4.destination }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<8>>(4) packets;
    counter(4, CounterType.packets) refused;

    action drop() {
        mark_to_drop(sm);
    }
    action forward(bit<9> port, bit<48> next_hop) {
        hdr.ethernet.destination = next_hop;
        hdr.ipv4.time_to_live = hdr.ipv4.time_to_live - 1;
        sm.egress_spec = port;
    }
    action flood(bit<16> group) {
        sm.mcast_grp = group;
    }
    action refuse(bit<32> reason) {
        refused.count(reason);
        mark_to_drop(sm);
    }
    action mirror() {
        clone(CloneType.I2E, 7);
    }
    table routes {
        key = { hdr.ipv4.destination: lpm; }
        actions = { forward; flood; drop; }
        default_action = drop();
    }
    table access {
        key = {
            hdr.ipv4.protocol: ternary;
            hdr.ipv4.source: optional;
            sm.ingress_port: range;
        }
        actions = { refuse; mirror; NoAction; }
        const default_action = NoAction();
    }
    apply {
        if (hdr.ipv4.isValid() && sm.checksum_error == 0) {
            packets.read(meta.seen, (bit<32>)sm.ingress_port);
            meta.seen = meta.seen + 1;
            packets.write((bit<32>)sm.ingress_port, meta.seen);
            routes.apply();
            access.apply();
        } else if (hdr.labels[0].isValid()) {
            if (sm.instance_type == 0) {
                resubmit_preserving_field_list(0);
            } else {
                hdr.labels.pop_front(1);
                sm.egress_spec = sm.ingress_port;
            }
        } else {
            drop();
        }
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (sm.egress_port == 4) {
            mark_to_drop(sm);
        }
    }
}

control RouterUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.length, hdr.ipv4.traffic_class,
            hdr.ipv4.total_length, hdr.ipv4.fragment, hdr.ipv4.time_to_live, hdr.ipv4.protocol,
            hdr.ipv4.source, hdr.ipv4.destination }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.labels);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterUpdate(), RouterDeparser()) main;
