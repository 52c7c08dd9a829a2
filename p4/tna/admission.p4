// SPDX-License-Identifier: Apache-2.0
//
// Checks the ports by which an INA packet enters and leaves, with v1model's tables, actions and rules. An
// action of Tofino cannot compare, so `admit` stores the values that `claims` compares with the packet.

control Admission(
    inout headers_t hdr,
    inout metadata_t meta,
    in ingress_intrinsic_metadata_t intrinsic,
    inout ingress_intrinsic_metadata_for_tm_t for_tm)
{
    // The job is not known yet, so this counts at the port.
    action reject_at_port() {
        meta.claim = CLAIM_REJECTED_AT_PORT;
    }

    action reject_in_job() {
        meta.claim = CLAIM_REJECTED_IN_JOB;
    }

    action set_child_bit(bit<32> child_bit) {
        meta.child_bit = child_bit;
    }

    // A child above 31 has no bit, so it matches no entry.
    action no_child() {
        meta.child_bit = 0;
    }

    // Tofino can shift by constants only.
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

    // `children` is as wide as a slot's bitmap, so P4Info shows the number of children that a switch supports.
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

    // Several hosts can send through this port, so the sender's addresses decide.
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

    // Compares the packet's fields with its entry. This is a table and not an `if`, because Tofino's compiler
    // expands a condition into all combinations for which it is true, which would be millions.
    //
    // `kinds` has a bit for each kind, at the position of the kind's value. `rank` is the rank of the only worker
    // that sends over this port, or RANK_ALL if there are several. Only a switch that aggregates checks fan_in.
    // The parser does not accept a GRADIENT without a hop entry.
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
            // The time to live is 1 or 0.
            (0 &&& 0xfe, _, _, _, _, true, _, _, _, _, _, _): reject_in_job();
            (0 &&& 0xfe, _, _, _, _, false, _, _, _, _, _, _): reject_in_job();
            // The child is not allowed on this port.
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
