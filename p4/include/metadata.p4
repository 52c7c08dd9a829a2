// SPDX-License-Identifier: Apache-2.0
//
// The values of fields in a packet's metadata. Each target defines the fields themselves.
#ifndef TRIBUTARY_METADATA_P4
#define TRIBUTARY_METADATA_P4

// The class of the frame, from the parser. A frame is OPAQUE if it could carry INA in a form that the parser
// does not support (options, fragments, VLAN tags): such a frame must not bypass admission.
const bit<2> FRAME_PLAIN = 0;
const bit<2> FRAME_OPAQUE = 1;
// INA includes the bit of OPAQUE: a frame is OPAQUE first, and Tofino's parser ORs its writes to a field.
const bit<2> FRAME_INA = 3;

// The operation on the values of the slice.
const bit<2> VALUES_KEEP = 0;
const bit<2> VALUES_STORE = 1;
const bit<2> VALUES_ADD = 2;
const bit<2> VALUES_LOAD = 3;

// The result of the slot for a GRADIENT: forward it, consume it, or turn it into a PROBE.
const bit<2> OUTCOME_FORWARD = 0;
const bit<2> OUTCOME_CONSUME = 1;
const bit<2> OUTCOME_PROBE = 2;

#endif
