// SPDX-License-Identifier: Apache-2.0
//
// The values of a slice against those of its slot, as the slot's state decided. Sums and maxima
// end up in the packet as well as in the slot: this packet may be the one that carries them on.

control Values(inout headers_t hdr, in metadata_t meta) {
    action store() {
        slot_values_0.write(meta.slot, hdr.values.lanes_0);
        slot_values_1.write(meta.slot, hdr.values.lanes_1);
        slot_values_2.write(meta.slot, hdr.values.lanes_2);
        slot_values_3.write(meta.slot, hdr.values.lanes_3);
    }

    action load() {
        slot_values_0.read(hdr.values.lanes_0, meta.slot);
        slot_values_1.read(hdr.values.lanes_1, meta.slot);
        slot_values_2.read(hdr.values.lanes_2, meta.slot);
        slot_values_3.read(hdr.values.lanes_3, meta.slot);
    }

    // The rests of the lanes are added without their top bits, whose sum without carry is an
    // exclusive or.
    action add() {
        bit<2048> held;
        slot_values_0.read(held, meta.slot);
        hdr.values.lanes_0 = ((hdr.values.lanes_0 & LANE_RESTS) + (held & LANE_RESTS))
            ^ ((hdr.values.lanes_0 ^ held) & LANE_TOPS);
        slot_values_0.write(meta.slot, hdr.values.lanes_0);

        slot_values_1.read(held, meta.slot);
        hdr.values.lanes_1 = ((hdr.values.lanes_1 & LANE_RESTS) + (held & LANE_RESTS))
            ^ ((hdr.values.lanes_1 ^ held) & LANE_TOPS);
        slot_values_1.write(meta.slot, hdr.values.lanes_1);

        slot_values_2.read(held, meta.slot);
        hdr.values.lanes_2 = ((hdr.values.lanes_2 & LANE_RESTS) + (held & LANE_RESTS))
            ^ ((hdr.values.lanes_2 ^ held) & LANE_TOPS);
        slot_values_2.write(meta.slot, hdr.values.lanes_2);

        slot_values_3.read(held, meta.slot);
        hdr.values.lanes_3 = ((hdr.values.lanes_3 & LANE_RESTS) + (held & LANE_RESTS))
            ^ ((hdr.values.lanes_3 ^ held) & LANE_TOPS);
        slot_values_3.write(meta.slot, hdr.values.lanes_3);
    }

    // MAX compares unsigned 31-bit numbers.
    action clear_tops() {
        hdr.values.lanes_0 = hdr.values.lanes_0 & LANE_RESTS;
        hdr.values.lanes_1 = hdr.values.lanes_1 & LANE_RESTS;
        hdr.values.lanes_2 = hdr.values.lanes_2 & LANE_RESTS;
        hdr.values.lanes_3 = hdr.values.lanes_3 & LANE_RESTS;
    }

    // With its top bit set before the subtraction, a lane borrows from none but itself, and keeps
    // the bit where `held` is not the smaller one. `won - (won >> 31)` spreads that bit over the
    // rest of its lane: the lanes that are to be taken from `held`.
    action maximum() {
        bit<2048> held;
        bit<2048> won;
        slot_values_0.read(held, meta.slot);
        won = ((held | LANE_TOPS) - hdr.values.lanes_0) & LANE_TOPS;
        hdr.values.lanes_0 = hdr.values.lanes_0
            ^ ((hdr.values.lanes_0 ^ held) & (won - (won >> 31)));
        slot_values_0.write(meta.slot, hdr.values.lanes_0);

        slot_values_1.read(held, meta.slot);
        won = ((held | LANE_TOPS) - hdr.values.lanes_1) & LANE_TOPS;
        hdr.values.lanes_1 = hdr.values.lanes_1
            ^ ((hdr.values.lanes_1 ^ held) & (won - (won >> 31)));
        slot_values_1.write(meta.slot, hdr.values.lanes_1);

        slot_values_2.read(held, meta.slot);
        won = ((held | LANE_TOPS) - hdr.values.lanes_2) & LANE_TOPS;
        hdr.values.lanes_2 = hdr.values.lanes_2
            ^ ((hdr.values.lanes_2 ^ held) & (won - (won >> 31)));
        slot_values_2.write(meta.slot, hdr.values.lanes_2);

        slot_values_3.read(held, meta.slot);
        won = ((held | LANE_TOPS) - hdr.values.lanes_3) & LANE_TOPS;
        hdr.values.lanes_3 = hdr.values.lanes_3
            ^ ((hdr.values.lanes_3 ^ held) & (won - (won >> 31)));
        slot_values_3.write(meta.slot, hdr.values.lanes_3);
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
