// SPDX-License-Identifier: Apache-2.0
//
// The slots, at the port that leads to the parent, and then the tables for every frame that leaves.
//
// After the slot's decision, the tables follow one another, each with its own condition, without nesting. The compiler
// places a nested block as a whole before the tables behind it, and the sums occupy all but three stages of a Tofino.
// Without nesting, the sums and the other tables share these stages.

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

    action discard() {
        meta.discarded = 1;
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

    // A PROBE must not carry values. This comes after the sums, because the slot takes this packet's values anyway.
    action leave_values_out() {
#define LEAVE_OUT(first, upto, next) hdr.values_##first.setInvalid();
        HEADERS(LEAVE_OUT)
    }

    apply {
        if (meta.bridge.act == 1) {
            slot.apply(hdr, meta);
            if (hdr.ina.kind == KIND_GRADIENT) {
                clear_tops.apply(hdr, meta);
            }
        }
        tally.apply(hdr, meta);
        outcome.apply(hdr, meta);
        departure.apply(hdr, meta);
        // A flood goes to every port of its tree, except the ingress port.
        if (meta.outcome == OUTCOME_CONSUME
            || (meta.bridge.prune_ingress_port == 1
                && intrinsic.egress_port == meta.bridge.ingress_port))
        {
            discard();
        }
        if (meta.discarded == 0) {
            leave();
        }
        if (meta.discarded == 0 && intrinsic.egress_port == TO_CONTROLLER) {
            tell_controller();
        }
        values.apply(hdr, meta);
        if (meta.outcome == OUTCOME_PROBE) {
            leave_values_out();
        }
    }
}
