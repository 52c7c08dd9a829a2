// SPDX-License-Identifier: Apache-2.0
//
// Tributary for Tofino: only instances.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#include "externs.p4"
#include "controls.p4"
#include "parser.p4"
#include "deparser.p4"

// No field may share bits with `drop_ctl`. The compiler had allocated bits of `meta.complete` to it, so the deparser
// dropped every complete sum (docs/tofino.md).
@pa_quick_phv_alloc
@pa_no_overlay("egress", "eg_intr_md_for_dprsr.drop_ctl")
Pipeline(
    SwitchIngressParser(),
    SwitchIngress(),
    SwitchIngressDeparser(),
    SwitchEgressParser(),
    SwitchEgress(),
    SwitchEgressDeparser()) pipe;

Switch(pipe) main;
