// SPDX-License-Identifier: Apache-2.0
//
// What the numbers in a packet's metadata mean. Which metadata there is, is each target's own affair.
#ifndef TRIBUTARY_METADATA_P4
#define TRIBUTARY_METADATA_P4

// What the parser made of the frame. A frame that could carry INA where the parser does not look
// (options, fragments, VLAN tags) is OPAQUE: admission must not be walked around.
const bit<2> FRAME_PLAIN = 0;
const bit<2> FRAME_OPAQUE = 1;
// With OPAQUE's bit, because Tofino's parser ors what it writes to a field: it is OPAQUE first.
const bit<2> FRAME_INA = 3;

// What is to be done with the values of the slice.
const bit<2> VALUES_KEEP = 0;
const bit<2> VALUES_STORE = 1;
const bit<2> VALUES_ADD = 2;
const bit<2> VALUES_LOAD = 3;

// What becomes of a GRADIENT behind the slot.
const bit<2> OUTCOME_FORWARD = 0;
const bit<2> OUTCOME_CONSUME = 1;
const bit<2> OUTCOME_PROBE = 2;

#endif
