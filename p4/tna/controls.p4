// SPDX-License-Identifier: Apache-2.0
//
// The part that runs on Tofino and, with the shim, on v1model: only the order of the files of the controls.
#include "../include/constants.p4"
#include "../include/headers.p4"
#include "../include/lanes.p4"
#include "../include/metadata.p4"

#include "metadata.p4"
#include "children.p4"
#include "counters.p4"

#include "identity.p4"
#include "admission.p4"
#include "forwarding.p4"
#include "ingress.p4"

#include "slot.p4"
#include "values.p4"
#include "outcome.p4"
#include "departure.p4"
#include "egress.p4"
