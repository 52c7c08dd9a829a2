// SPDX-License-Identifier: Apache-2.0
//
// The slots: one array for each part of their state. They are in a separate file, because Gradients fills
// slots and Results releases them.
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
// The bits of these registers together are the widest slice, so P4Info shows the number of its values.
#define SLOT_VALUES(first, lane, bits) register<bit<bits>, bit<32>>(SLOTS) slot_values_##lane;
#define SLOT_VALUES_ALL(first, upto, next) FIELDS_##first(SLOT_VALUES)
HEADERS(SLOT_VALUES_ALL)

#endif
