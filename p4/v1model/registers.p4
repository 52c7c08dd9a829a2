// SPDX-License-Identifier: Apache-2.0
//
// The slots: one array for each part of their state, here because GRADIENT fills what RESULT
// releases.
#ifndef TRIBUTARY_REGISTERS_P4
#define TRIBUTARY_REGISTERS_P4

register<bit<16>, bit<32>>(SLOTS) slot_job;
register<bit<32>, bit<32>>(SLOTS) slot_seq;
register<bit<64>, bit<32>>(SLOTS) slot_bitmap;
register<bit<8>, bit<32>>(SLOTS) slot_count;
register<bit<32>, bit<32>>(SLOTS) slot_contributors;
register<bit<32>, bit<32>>(SLOTS) slot_weight;
register<bit<32>, bit<32>>(SLOTS) slot_tag_high;
register<bit<32>, bit<32>>(SLOTS) slot_tag_low;
register<bit<2048>, bit<32>>(SLOTS) slot_values_0;
register<bit<2048>, bit<32>>(SLOTS) slot_values_1;
register<bit<2048>, bit<32>>(SLOTS) slot_values_2;
register<bit<2048>, bit<32>>(SLOTS) slot_values_3;

#endif
