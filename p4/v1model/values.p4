// SPDX-License-Identifier: Apache-2.0
//
// Combines the values of a slice with the values of its slot, as the slot's state requires. Sums and maxima
// are written to the slot and to the packet, because this packet may carry them to the parent.

// Applies statements to a header if the slice has it.
#define IF_VALID(first, fields) if (hdr.values_##first.isValid()) { fields }

control Values(inout headers_t hdr, in metadata_t meta) {
    action store() {
#define STORE(first, lane, bits) slot_values_##lane.write(meta.slot, hdr.values_##first.lanes_##lane);
#define STORE_ALL(first, upto, next) IF_VALID(first, FIELDS_##first(STORE))
        HEADERS(STORE_ALL)
    }

    action load() {
#define LOAD(first, lane, bits) slot_values_##lane.read(hdr.values_##first.lanes_##lane, meta.slot);
#define LOAD_ALL(first, upto, next) IF_VALID(first, FIELDS_##first(LOAD))
        HEADERS(LOAD_ALL)
    }

    // The lanes are added without their top bits. The sum of the top bits, without a carry, is an
    // exclusive or.
    action add() {
        bit<1024> held_1024;
        bit<2048> held_2048;
#define ADD(first, lane, bits) \
        slot_values_##lane.read(held_##bits, meta.slot); \
        hdr.values_##first.lanes_##lane = \
            ((hdr.values_##first.lanes_##lane & RESTS_##bits) + (held_##bits & RESTS_##bits)) \
            ^ ((hdr.values_##first.lanes_##lane ^ held_##bits) & TOPS_##bits); \
        slot_values_##lane.write(meta.slot, hdr.values_##first.lanes_##lane);
#define ADD_ALL(first, upto, next) IF_VALID(first, FIELDS_##first(ADD))
        HEADERS(ADD_ALL)
    }

    // MAX compares unsigned 31-bit numbers.
    action clear_tops() {
#define CLEAR(first, lane, bits) \
        hdr.values_##first.lanes_##lane = hdr.values_##first.lanes_##lane & RESTS_##bits;
#define CLEAR_ALL(first, upto, next) IF_VALID(first, FIELDS_##first(CLEAR))
        HEADERS(CLEAR_ALL)
    }

    // The top bit of each lane is set before the subtraction, so a lane does not borrow from another lane. It
    // stays set if `held` is not smaller than the packet's value. `won - (won >> 31)` copies this bit to all
    // lower bits of its lane, which gives a mask of the lanes to take from `held`.
    action maximum() {
        bit<1024> held_1024;
        bit<1024> won_1024;
        bit<2048> held_2048;
        bit<2048> won_2048;
#define MAXIMUM(first, lane, bits) \
        slot_values_##lane.read(held_##bits, meta.slot); \
        won_##bits = ((held_##bits | TOPS_##bits) - hdr.values_##first.lanes_##lane) & TOPS_##bits; \
        hdr.values_##first.lanes_##lane = hdr.values_##first.lanes_##lane \
            ^ ((hdr.values_##first.lanes_##lane ^ held_##bits) & (won_##bits - (won_##bits >> 31))); \
        slot_values_##lane.write(meta.slot, hdr.values_##first.lanes_##lane);
#define MAXIMUM_ALL(first, upto, next) IF_VALID(first, FIELDS_##first(MAXIMUM))
        HEADERS(MAXIMUM_ALL)
    }

    apply {
        if (meta.values == VALUES_LOAD) {
            load();
        } else if (meta.values != VALUES_KEEP) {
            if ((hdr.ina.flags & FLAG_MAX) != 0) {
                clear_tops();
                if (meta.values == VALUES_ADD) {
                    maximum();
                } else {
                    store();
                }
            } else if (meta.values == VALUES_ADD) {
                add();
            } else {
                store();
            }
        }
    }
}
