// SPDX-License-Identifier: Apache-2.0
//
// Checks the ports by which an INA packet enters and leaves. The switch uses no field of a packet before
// the controller's entries allow it, and no packet reaches a slot without these checks.

control Admission(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    // The job is not known yet, so this counts at the port.
    action reject_at_port() {
        port_rejected.count(standard_metadata.ingress_port);
        mark_to_drop(standard_metadata);
    }

    action reject_in_job() {
        meta.admitted = 0;
        job_rejected.count(meta.job_index);
        mark_to_drop(standard_metadata);
    }

    action admit(
        bit<16> job_index,
        bit<32> slot_base,
        bit<32> slot_mask,
        bit<64> children,
        bit<2> kinds,
        bit<1> aggregate,
        bit<8> fan_in,
        bit<16> rank)
    {
        meta.job_index = job_index;
        meta.slot = slot_base + (hdr.ina.seq & slot_mask);
        meta.slot_mask = slot_mask;
        // The bit of a child above 63 is shifted out, so it matches no entry.
        meta.child_bit = 64w1 << hdr.hop.child;
        job_received.count(meta.job_index);
        // `kinds` has a bit for each kind, at the position of the kind's value. `rank` is the rank of
        // the only worker that sends over this port, or RANK_ALL if there are several workers.
        if (hdr.ipv4.ttl > 1
            && (hdr.ina.kind[1:0] & kinds) != 0
            && ((hdr.ina.flags & FLAG_PROBE) == 0
                ? (hdr.ina.blocks != 0 && hdr.ina.blocks <= BLOCKS
                    && (hdr.ina.blocks & (hdr.ina.blocks - 1)) == 0)
                : hdr.ina.blocks == 0)
            && (!hdr.hop.isValid()
                || (hdr.hop.aggregate == aggregate
                    && (hdr.ina.kind == KIND_RESULT
                        || ((meta.child_bit & children) != 0
                            && (rank == RANK_ALL || hdr.ina.rank == rank)
                            && (aggregate == 0 || hdr.hop.fan_in == fan_in))))))
        {
            meta.admitted = 1;
        } else {
            job_rejected.count(meta.job_index);
            mark_to_drop(standard_metadata);
        }
    }

    // Several hosts can send through this port, so the sender's addresses decide.
    action admit_by_sender() {}

    table admission {
        key = {
            hdr.ina.job: exact @name("job");
            standard_metadata.ingress_port: exact @name("ingress_port");
        }
        actions = { admit; admit_by_sender; reject_at_port; }
        default_action = reject_at_port();
        size = ADMISSION_ENTRIES;
    }

    // The key has both addresses: a plain switch may bind either of them to its ports, and a neighbour must
    // not send as a member. A sum has the addresses of the worker whose gradient completed it.
    table sender_admission {
        key = {
            hdr.ina.job: exact @name("job");
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.ethernet.src: exact @name("source_mac");
            hdr.ipv4.src: exact @name("source_ip");
        }
        actions = { admit; reject_at_port; }
        default_action = reject_at_port();
        size = SENDER_ADMISSION_ENTRIES;
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
        standard_metadata.mcast_grp = group;
        meta.release = release;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
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
            || standard_metadata.checksum_error == 1
            || (hdr.hop.isValid() && hdr.hop.node != meta.node))
        {
            reject_at_port();
        } else {
            switch (admission.apply().action_run) {
                admit_by_sender: {
                    sender_admission.apply();
                }
            }
            if (meta.admitted == 1) {
                if (hdr.hop.isValid()) {
                    egress_guard.apply();
                } else {
                    result_group.apply();
                }
            }
        }
    }
}
