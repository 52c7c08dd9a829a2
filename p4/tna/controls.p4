// SPDX-License-Identifier: Apache-2.0
//
// All that runs on Tofino and, behind the shim, on v1model: order only, one control a file.
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
