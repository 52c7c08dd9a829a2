// SPDX-License-Identifier: Apache-2.0
//
// Which INA packet may come in where and go out where: v1model's tables, actions and rules. A Tofino
// action can't compare, so `admit` leaves behind what a packet's claims are to be compared with.

control Admission(
    inout headers_t hdr,
    inout metadata_t meta,
    in ingress_intrinsic_metadata_t intrinsic,
    inout ingress_intrinsic_metadata_for_tm_t for_tm)
{
    // No job is known yet: only the port can be blamed.
    action reject_at_port() {
        meta.claim = CLAIM_REJECTED_AT_PORT;
    }

    action reject_in_job() {
        meta.claim = CLAIM_REJECTED_IN_JOB;
    }

    action set_child_bit(bit<32> child_bit) {
        meta.child_bit = child_bit;
    }

    // A child above 31 has no bit, and matches no entry's children.
    action no_child() {
        meta.child_bit = 0;
    }

    // Tofino shifts by constants only.
    @hidden
    table child_bit {
        key = {
            hdr.hop.child: exact;
        }
        actions = { set_child_bit; no_child; }
        const default_action = no_child();
#define CHILD_BIT(child) child: set_child_bit(32w1 << child);
        const entries = {
            CHILDREN(CHILD_BIT)
        }
    }

    // `children` is as wide as a slot's bitmap: so P4Info tells how many a switch tells apart.
    action admit(
        bit<16> job_index,
        bit<32> slot_base,
        bit<32> slot_mask,
        bit<32> children,
        bit<2> kinds,
        bit<1> aggregate,
        bit<8> fan_in,
        bit<16> rank)
    {
        meta.bridge.job_index = job_index;
        meta.slot_base = slot_base;
        meta.slot_offset = hdr.ina.seq & slot_mask;
        meta.seq_in_next_window = hdr.ina.seq + slot_mask;
        meta.allowed_child = meta.child_bit & children;
        meta.allowed_kinds = kinds;
        meta.allowed_aggregate = aggregate;
        meta.allowed_rank = rank;
        meta.other_rank = hdr.ina.rank ^ rank;
        meta.other_fan_in = hdr.hop.fan_in ^ fan_in;
    }

    // Several hosts can send through this port: which of them did decides.
    action admit_by_sender() {}

    table admission {
        key = {
            hdr.ina.job: exact @name("job");
            intrinsic.ingress_port: exact @name("ingress_port");
        }
        actions = { admit; admit_by_sender; reject_at_port; }
        default_action = reject_at_port();
        size = ADMISSION_ENTRIES;
    }

    table sender_admission {
        key = {
            hdr.ina.job: exact @name("job");
            intrinsic.ingress_port: exact @name("ingress_port");
            hdr.ethernet.src: exact @name("source_mac");
            hdr.ipv4.src: exact @name("source_ip");
        }
        actions = { admit; reject_at_port; }
        default_action = reject_at_port();
        size = SENDER_ADMISSION_ENTRIES;
    }

    action hold() {}

    // What the packet says of itself against what its entry allows. A table, not an `if`: Tofino's compiler
    // writes out a condition as all the ways in which it can hold, and this one has millions.
    //
    // `kinds` has a bit for each kind, in the place of the kind's own value. The rank is that of the one
    // worker who sends this way, or RANK_ALL where there are several. Only who aggregates counts children.
    // The parser lets no GRADIENT without an entry come this far.
    @hidden
    table claims {
        key = {
            hdr.ipv4.ttl: ternary;
            hdr.ina.kind: ternary;
            meta.allowed_kinds: ternary;
            hdr.ina.flags: ternary;
            hdr.ina.blocks: ternary;
            hdr.hop.isValid(): exact;
            hdr.hop.aggregate: ternary;
            meta.allowed_aggregate: ternary;
            meta.allowed_child: ternary;
            meta.allowed_rank: ternary;
            meta.other_rank: ternary;
            meta.other_fan_in: ternary;
        }
        actions = { hold; reject_in_job; }
        const default_action = reject_in_job();
#define CLAIMS(probe, blocks) \
            (_, KIND_GRADIENT, 1 &&& 1, probe &&& FLAG_PROBE, blocks, true, 0, 0, _, RANK_ALL, _, _): hold(); \
            (_, KIND_GRADIENT, 1 &&& 1, probe &&& FLAG_PROBE, blocks, true, 0, 0, _, _, 0, _): hold(); \
            (_, KIND_GRADIENT, 1 &&& 1, probe &&& FLAG_PROBE, blocks, true, 1, 1, _, RANK_ALL, _, 0): hold(); \
            (_, KIND_GRADIENT, 1 &&& 1, probe &&& FLAG_PROBE, blocks, true, 1, 1, _, _, 0, 0): hold(); \
            (_, KIND_RESULT, 2 &&& 2, probe &&& FLAG_PROBE, blocks, true, 0, 0, _, _, _, _): hold(); \
            (_, KIND_RESULT, 2 &&& 2, probe &&& FLAG_PROBE, blocks, true, 1, 1, _, _, _, _): hold(); \
            (_, KIND_RESULT, 2 &&& 2, probe &&& FLAG_PROBE, blocks, false, _, _, _, _, _, _): hold();
#define CLAIMS_WITH_VALUES(first, upto, next) CLAIMS(0, upto)
        const entries = {
            // The last of its time, or none left.
            (0 &&& 0xfe, _, _, _, _, true, _, _, _, _, _, _): reject_in_job();
            (0 &&& 0xfe, _, _, _, _, false, _, _, _, _, _, _): reject_in_job();
            // No child that may come in there.
            (_, KIND_GRADIENT, _, _, _, true, _, _, 0, _, _, _): reject_in_job();
            HEADERS(CLAIMS_WITH_VALUES)
            CLAIMS(FLAG_PROBE, 0)
        }
    }

    action allow() {}

    table egress_guard {
        key = {
            hdr.ina.job: exact @name("job");
            hdr.hop.egress_port: exact @name("egress_port");
        }
        actions = { allow; reject_in_job; }
        default_action = reject_in_job();
        size = EGRESS_GUARD_ENTRIES;
    }

    action deliver(bit<16> group, bit<1> release) {
        for_tm.mcast_grp_a = group;
        meta.bridge.act = release;
    }

    table result_group {
        key = {
            hdr.ina.job: exact @name("job");
        }
        actions = { deliver; reject_in_job; }
        default_action = reject_in_job();
        size = MAX_JOBS;
    }

    apply {
        if (meta.frame != FRAME_INA
            || meta.checksum_error == 1
            || (hdr.hop.isValid() && meta.other_node != 0))
        {
            reject_at_port();
        } else {
            child_bit.apply();
            switch (admission.apply().action_run) {
                admit_by_sender: {
                    sender_admission.apply();
                }
            }
            if (meta.claim == CLAIM_ADMITTED) {
                switch (claims.apply().action_run) {
                    hold: {
                        if (hdr.hop.isValid()) {
                            egress_guard.apply();
                        } else {
                            result_group.apply();
                        }
                    }
                }
            }
        }
    }
}
