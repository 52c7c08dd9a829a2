// SPDX-License-Identifier: Apache-2.0
//
// Selects the outcome of a GRADIENT after its slot, and counts it. The metadata of all other packets has its initial
// values, to which nothing here applies.

control Outcome(in headers_t hdr, inout egress_metadata_t meta) {
    action complete() {
        meta.complete = 1;
    }

    action ask() {
        meta.outcome = OUTCOME_PROBE;
    }

    action consume() {
        meta.outcome = OUTCOME_CONSUME;
    }

    @hidden
    table fate {
        key = {
            meta.stale: exact;
            meta.values: ternary;
            meta.complete: ternary;
            hdr.ina.flags: ternary;
        }
        actions = { ask; consume; NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, _, _, _): ask();
            // The packet has not used a slot.
            (0, VALUES_KEEP, _, _): NoAction();
            // The packet carries the complete sum to the parent.
            (0, _, 1, _): NoAction();
            (0, _, _, FLAG_RETRANSMIT &&& FLAG_RETRANSMIT): ask();
            (0, _, _, _): consume();
        }
    }

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

    action count_consumed() {
        job_consumed.count(meta.bridge.job_index);
    }

    action count_released() {
        job_released.count(meta.bridge.job_index);
    }

    apply {
        if (meta.count == hdr.hop.fan_in) {
            complete();
        }
        fate.apply();
        if (meta.values == VALUES_STORE || meta.values == VALUES_ADD) {
            count_contributed();
        }
        if (meta.values == VALUES_LOAD) {
            count_duplicate();
        }
        if (meta.stale == 1) {
            count_stale();
        }
        if ((meta.values == VALUES_STORE || meta.values == VALUES_ADD) && meta.complete == 1) {
            count_completed();
        }
        if (meta.outcome == OUTCOME_CONSUME) {
            count_consumed();
        }
        if (meta.released == 1) {
            count_released();
        }
    }
}
