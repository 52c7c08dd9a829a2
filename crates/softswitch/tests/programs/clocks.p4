// SPDX-License-Identifier: Apache-2.0
//
// What depends on a clock, on chance or on other packets, shown as what must hold of it: times, queues, random numbers.
#include <core.p4>
#include <v1model.p4>

header request_t {
    bit<8> way;
    bit<16> low;
    bit<16> high;
    bit<8> priority;
}

header report_t {
    bit<8> truths;
    bit<8> times;
    bit<8> queue;
    bit<16> chosen;
}

struct headers_t {
    report_t report;
    request_t request;
}

struct metadata_t {
    @field_list(1) bit<48> begun;
}

parser ClockParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.request);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ClockIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<48>>(1) latest;
    apply {
        sm.egress_spec = 1;
        if (!hdr.request.isValid()) {
            mark_to_drop(sm);
            exit;
        }
        hdr.report.setValid();
        if (hdr.request.way == 0) {
            bit<48> before;
            latest.read(before, 0);
            latest.write(0, sm.ingress_global_timestamp);
            hdr.report.truths = sm.ingress_global_timestamp >= before ? 8w1 : 0;
            hdr.report.times = sm.ingress_global_timestamp != 0 ? 8w1 : 0;
        } else if (hdr.request.way == 1) {
            bit<16> number = 0x1234;
            random(number, hdr.request.low, hdr.request.high);
            if (hdr.request.low <= hdr.request.high) {
                hdr.report.truths = number >= hdr.request.low && number <= hdr.request.high ? 8w1 : 0;
            } else {
                // There is no such number.
                hdr.report.chosen = number;
            }
        } else if (hdr.request.way == 2) {
            random(hdr.report.chosen, hdr.request.low, hdr.request.low);
        } else if (hdr.request.way == 3) {
            bit<4> small;
            random(small, 4w3, 4w12);
            assert(small >= 3);
            assume(small <= 12);
            hdr.report.truths = 1;
            log_msg("small is {} of {}", { small, hdr.request.low });
            log_msg("no arguments");
        } else if (hdr.request.way == 4) {
            meta.begun = sm.ingress_global_timestamp;
            if (sm.instance_type == 0) {
                resubmit_preserving_field_list(1);
            }
            hdr.report.truths = (bit<8>)sm.instance_type;
        }
    }
}

control ClockEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.request.way < 4) {
            bit<32> entered = (bit<32>)sm.ingress_global_timestamp;
            // By their lowest bits, which may wrap around.
            hdr.report.times = hdr.report.times
                | ((sm.enq_timestamp - entered) & 0x80000000 == 0 ? 8w2 : 0)
                | (((bit<32>)sm.egress_global_timestamp - sm.enq_timestamp) & 0x80000000 == 0 ? 8w4 : 0)
                | (sm.egress_global_timestamp >= sm.ingress_global_timestamp ? 8w8 : 0)
                | (sm.deq_timedelta <= (bit<32>)sm.egress_global_timestamp - entered + 100000 ? 8w16 : 0);
        }
        // One packet at a time: nothing else waits.
        hdr.report.queue = (bit<8>)sm.enq_qdepth + (bit<8>)sm.deq_qdepth;
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control ClockDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.request);
    }
}

V1Switch(ClockParser(), Verify(), ClockIngress(), ClockEgress(), Update(), ClockDeparser()) main;
