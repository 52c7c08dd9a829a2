// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a GRADIENT behind its slot, and what is counted of it.

control Outcome(in headers_t hdr, inout egress_metadata_t meta) {
    action count_contributed() {
        job_contributed.count(meta.bridge.job_index);
    }

    action count_duplicate() {
        job_duplicate.count(meta.bridge.job_index);
    }

    action count_stale() {
        job_stale.count(meta.bridge.job_index);
    }

    action count_completed() {
        job_completed.count(meta.bridge.job_index);
    }

    action ask() {
        meta.outcome = OUTCOME_PROBE;
    }

    action consume() {
        meta.outcome = OUTCOME_CONSUME;
        job_consumed.count(meta.bridge.job_index);
    }

    apply {
        if (meta.values == VALUES_KEEP) {
            count_stale();
        } else if (meta.values == VALUES_LOAD) {
            count_duplicate();
        } else {
            count_contributed();
        }
        if (meta.values != VALUES_KEEP && meta.count == hdr.hop.fan_in) {
            if (meta.values != VALUES_LOAD) {
                count_completed();
            }
        } else if (meta.values == VALUES_KEEP || (hdr.ina.flags & FLAG_RETRANSMIT) != 0) {
            ask();
        } else {
            consume();
        }
    }
}
