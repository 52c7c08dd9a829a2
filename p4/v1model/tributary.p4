// SPDX-License-Identifier: Apache-2.0
//
// Tributary for v1model: only instances and their order. Each control has its own file.
#include <core.p4>
// From this version on, a counter's index may have any width.
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/lanes.p4"
#include "../include/metadata.p4"
#include "../include/parser.p4"

#include "metadata.p4"
#include "counters.p4"
#include "registers.p4"

#include "parser.p4"
#include "checksum.p4"
#include "identity.p4"
#include "admission.p4"
#include "slot.p4"
#include "values.p4"
#include "gradients.p4"
#include "results.p4"
#include "departure.p4"
#include "forwarding.p4"
#include "egress.p4"
#include "deparser.p4"

control SwitchIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    Identity() identity;
    Admission() admission;
    Gradients() gradients;
    Results() results;
    Departure() departure;
    Forwarding() forwarding;

    action send_packet_out() {
        standard_metadata.egress_spec = hdr.packet_out.egress_port;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            send_packet_out();
        } else {
            identity.apply(meta, standard_metadata);
            if (meta.frame == FRAME_PLAIN || meta.node == NO_NODE) {
                forwarding.apply(hdr, meta, standard_metadata);
            } else {
                admission.apply(hdr, meta, standard_metadata);
                if (meta.admitted == 1) {
                    if (hdr.ina.kind == KIND_GRADIENT) {
                        gradients.apply(hdr, meta, standard_metadata);
                    } else {
                        results.apply(hdr, meta);
                    }
                    if (meta.outcome != OUTCOME_CONSUME) {
                        departure.apply(hdr, meta, standard_metadata);
                    }
                }
            }
        }
    }
}

V1Switch(
    SwitchParser(),
    VerifyIpv4(),
    SwitchIngress(),
    SwitchEgress(),
    UpdateIpv4(),
    SwitchDeparser()) main;
