// SPDX-License-Identifier: Apache-2.0
//
// Prepares an INA packet for the next node: removes the entry for this switch, and adjusts the lengths.

control Departure(
    inout headers_t hdr,
    in metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    // A PROBE only notifies the server that a worker waits for this slice, so it must not carry values that
    // could be added.
    action turn_into_probe() {
        job_probe.count(meta.job_index);
        hdr.ina.flags = hdr.ina.flags | FLAG_PROBE;
        hdr.ina.contributors = 0;
        hdr.ina.weight = 0;
        hdr.ina.tag_high = 0;
        hdr.ina.tag_low = 0;
#define LEAVE_OUT(first, upto, next) hdr.values_##first.setInvalid();
        HEADERS(LEAVE_OUT)
        // A block has 128 bytes.
        hdr.udp.length = hdr.udp.length - ((bit<16>)hdr.ina.blocks << 7);
        hdr.ipv4.total_length = hdr.ipv4.total_length - ((bit<16>)hdr.ina.blocks << 7);
        hdr.ina.blocks = 0;
    }

    // The egress guard has checked all 16 bits of the port.
    action take_hop() {
        standard_metadata.egress_spec = hdr.hop.egress_port[8:0];
        hdr.hop.setInvalid();
        hdr.ina.hop_count = hdr.ina.hop_count - 1;
        hdr.udp.length = hdr.udp.length - HOP_BYTES;
        hdr.ipv4.total_length = hdr.ipv4.total_length - HOP_BYTES;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    apply {
        if (meta.outcome == OUTCOME_PROBE) {
            turn_into_probe();
        }
        // A multicast result has no entry, and its group selects the ports.
        if (hdr.hop.isValid()) {
            take_hop();
        }
    }
}
