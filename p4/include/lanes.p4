// SPDX-License-Identifier: Apache-2.0
//
// Masks for 64 lanes of 32 bits in one field. Arithmetic over the whole field must not carry from
// one lane into the next, so the top bit of each lane is kept out of it.
#ifndef TRIBUTARY_LANES_P4
#define TRIBUTARY_LANES_P4

const bit<128> TOPS_4 = 0x80000000_80000000_80000000_80000000;
const bit<512> TOPS_16 = TOPS_4 ++ TOPS_4 ++ TOPS_4 ++ TOPS_4;
const bit<2048> LANE_TOPS = TOPS_16 ++ TOPS_16 ++ TOPS_16 ++ TOPS_16;
const bit<2048> LANE_RESTS = ~LANE_TOPS;

#endif
