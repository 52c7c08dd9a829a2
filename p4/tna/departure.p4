// SPDX-License-Identifier: Apache-2.0
//
// Prepares an INA packet for the next node: removes the entry for this switch, and adjusts the lengths.

control Departure(inout headers_t hdr, in egress_metadata_t meta) {
    action count_probe() {
        job_probe.count(meta.bridge.job_index);
    }

    // A PROBE only notifies the server that a worker waits for this slice, so it must not carry values that
    // could be added.
    action turn_into_probe() {
        hdr.ina.flags = hdr.ina.flags | FLAG_PROBE;
        hdr.ina.contributors = 0;
        hdr.ina.weight = 0;
        hdr.ina.tag_high = 0;
        hdr.ina.tag_low = 0;
        hdr.ina.blocks = 0;
    }

    // Subtracts the length of a slice's values. Each width has an action, because Tofino cannot multiply.
#define SHORTEN(first, upto, next) \
    action shorten_##first() { \
        hdr.udp.length = hdr.udp.length - 128 * upto; \
        hdr.ipv4.total_length = hdr.ipv4.total_length - 128 * upto; \
    }
    HEADERS(SHORTEN)

    action take_hop() {
        hdr.hop.setInvalid();
        hdr.ina.hop_count = hdr.ina.hop_count - 1;
        hdr.udp.length = hdr.udp.length - HOP_BYTES;
        hdr.ipv4.total_length = hdr.ipv4.total_length - HOP_BYTES;
    }

    action take_time() {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // A consumed packet is dropped later, so these changes need no condition for it.
    apply {
        if (meta.outcome == OUTCOME_PROBE
            || (meta.bridge.ina == 1 && hdr.ina.kind == KIND_GRADIENT && (hdr.ina.flags & FLAG_PROBE) != 0))
        {
            count_probe();
        }
#define SHORTEN_BY(first, upto, next) if (meta.outcome == OUTCOME_PROBE && hdr.ina.blocks == upto) { shorten_##first(); }
        HEADERS(SHORTEN_BY)
        if (meta.outcome == OUTCOME_PROBE) {
            turn_into_probe();
        }
        // A multicast result has no entry, and its group selects the ports.
        if (meta.bridge.ina == 1 && hdr.hop.isValid()) {
            take_hop();
        }
        if (meta.bridge.ina == 1) {
            take_time();
        }
    }
}
