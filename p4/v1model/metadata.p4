// SPDX-License-Identifier: Apache-2.0
//
// The metadata of a packet inside the pipeline. It is zero at the start.
#ifndef TRIBUTARY_V1MODEL_METADATA_P4
#define TRIBUTARY_V1MODEL_METADATA_P4

struct metadata_t {
    bit<2> frame;
    bit<16> node;
    bit<1> admitted;
    bit<1> release;
    bit<1> prune_ingress_port;
    bit<2> values;
    bit<2> outcome;
    bit<16> job_index;
    bit<32> slot;
    bit<32> slot_mask;
    bit<64> child_bit;
}

#endif
