// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a GRADIENT behind its slot, and what is counted of it. Of all other packets nothing is known here that
// any of it is for.

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
            // No slot has seen it.
            (0, VALUES_KEEP, _, _): NoAction();
            // It carries the sum on.
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
