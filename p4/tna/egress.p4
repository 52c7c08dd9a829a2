// SPDX-License-Identifier: Apache-2.0
//
// The slots, at the port that leads to the parent; then what every frame passes that leaves.

control SwitchEgress(
    inout headers_t hdr,
    inout egress_metadata_t meta,
    in egress_intrinsic_metadata_t intrinsic,
    in egress_intrinsic_metadata_from_parser_t from_parser,
    inout egress_intrinsic_metadata_for_deparser_t for_deparser,
    inout egress_intrinsic_metadata_for_output_port_t for_output_port)
{
    Slot() slot;
    ClearTops() clear_tops;
    Tally() tally;
    Values() values;
    Outcome() outcome;
    Departure() departure;

    action count_released() {
        job_released.count(meta.bridge.job_index);
    }

    action discard() {
        for_deparser.drop_ctl = 1;
    }

    action leave() {
        port_egress.count(intrinsic.egress_port);
    }

    action tell_controller() {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = meta.bridge.told_port;
        hdr.packet_in.pad = meta.bridge.told_pad;
    }

    apply {
        if (meta.bridge.ina == 1) {
            if (meta.bridge.act == 1) {
                slot.apply(hdr, meta);
                if (hdr.ina.kind == KIND_GRADIENT) {
                    clear_tops.apply(hdr, meta);
                    tally.apply(hdr, meta);
                    values.apply(hdr, meta);
                    outcome.apply(hdr, meta);
                } else if (meta.released == 1) {
                    count_released();
                }
            }
            if (meta.outcome != OUTCOME_CONSUME) {
                departure.apply(hdr, meta);
            }
        }
        // A flood goes to every port of its tree: the one it came from has seen the frame.
        if (meta.outcome == OUTCOME_CONSUME
            || (meta.bridge.prune_ingress_port == 1
                && intrinsic.egress_port == meta.bridge.ingress_port))
        {
            discard();
        } else {
            leave();
            if (intrinsic.egress_port == TO_CONTROLLER) {
                tell_controller();
            }
        }
    }
}
