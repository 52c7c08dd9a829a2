// SPDX-License-Identifier: Apache-2.0
//
// Ingress checks admission. Egress has the slots, at the port that leads to the parent. All packets of a job
// that use its slots on a switch leave by this port, so they reach the same slots from any ingress port. A
// packet that a full queue drops has not changed a slot yet, so it is an ordinary loss.

control SwitchIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    in ingress_intrinsic_metadata_t intrinsic,
    in ingress_intrinsic_metadata_from_parser_t from_parser,
    inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
    inout ingress_intrinsic_metadata_for_tm_t for_tm)
{
    Identity() identity;
    Admission() admission;
    Forwarding() forwarding;

    action send_packet_out() {
        for_tm.ucast_egress_port = hdr.packet_out.egress_port;
    }

    action count_at_port() {
        port_rejected.count(intrinsic.ingress_port);
        for_deparser.drop_ctl = 1;
    }

    action count_received() {
        job_received.count(meta.bridge.job_index);
    }

    action count_rejected() {
        job_rejected.count(meta.bridge.job_index);
        for_deparser.drop_ctl = 1;
    }

    action count_forwarded() {
        job_forwarded.count(meta.bridge.job_index);
    }

    action count_result() {
        job_result.count(meta.bridge.job_index);
    }

    action hand_over() {
        meta.bridge.ina = 1;
        meta.bridge.slot = meta.slot_base + meta.slot_offset;
    }

    action bring_child() {
        meta.bridge.operand = meta.child_bit;
    }

    action bring_next_slice() {
        meta.bridge.operand = meta.seq_in_next_window + 1;
    }

    // The egress guard has checked all 16 bits of the port.
    action to_next_hop() {
        for_tm.ucast_egress_port = hdr.hop.egress_port[8:0];
    }

    // A PROBE passes all slots, because its slice must not be added any more.
    action act_on_slot() {
        meta.bridge.act = 1;
    }

    apply {
        meta.bridge.ingress_port = intrinsic.ingress_port;
        meta.bridge.told_port = intrinsic.ingress_port;
        if (hdr.packet_out.isValid()) {
            send_packet_out();
        } else {
            identity.apply(hdr, meta, intrinsic);
            if (meta.frame == FRAME_PLAIN || meta.node == NO_NODE) {
                forwarding.apply(hdr, meta, for_deparser, for_tm);
            } else {
                admission.apply(hdr, meta, intrinsic, for_tm);
                if (meta.claim == CLAIM_REJECTED_AT_PORT) {
                    count_at_port();
                } else {
                    count_received();
                    if (meta.claim == CLAIM_REJECTED_IN_JOB) {
                        count_rejected();
                    } else {
                        hand_over();
                        if (hdr.hop.isValid()) {
                            to_next_hop();
                            if (hdr.hop.aggregate == 1
                                && (hdr.ina.kind == KIND_RESULT || (hdr.ina.flags & FLAG_PROBE) == 0))
                            {
                                act_on_slot();
                            }
                        }
                        if (hdr.ina.kind == KIND_RESULT) {
                            bring_next_slice();
                            count_result();
                        } else {
                            bring_child();
                            if (hdr.hop.aggregate == 0 && (hdr.ina.flags & FLAG_PROBE) == 0) {
                                count_forwarded();
                            }
                        }
                    }
                }
            }
        }
    }
}
