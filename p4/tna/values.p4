// SPDX-License-Identifier: Apache-2.0
//
// Combines the tally and the values of a slice with those of its slot, as the slot's state requires. An action
// can access one register, so each register has its own table. A stage has room for four registers.

REGISTER(bit<32>, slot_contributors)
REGISTER(bit<32>, slot_weight)
REGISTER(bit<32>, slot_tag_high)
REGISTER(bit<32>, slot_tag_low)
// The bits of these registers together are the widest slice, so P4Info shows the number of its values.
#define SLOT_VALUES(first, lane, bits) REGISTER(bit<bits>, slot_values_##lane)
#define SLOT_VALUES_ALL(first, upto, next) FIELDS_##first(SLOT_VALUES)
HEADERS(SLOT_VALUES_ALL)

// Operations on a slot's cell and a packet's field. The sum is written to both, because this packet may carry
// it to the parent.
#define SUM_ACTIONS(part, field) \
    ON_REGISTER(bit<32>, slot_##part, store_##part, \
        value = field; \
        result = value; \
    ) \
    ON_REGISTER(bit<32>, slot_##part, add_##part, \
        value = value + field; \
        result = value; \
    ) \
    ON_REGISTER(bit<32>, slot_##part, load_##part, \
        result = value; \
    )

#define CELL_ACTION(does, part, field) \
    @hidden action do_##does##_##part() { \
        EXECUTE(does##_##part, meta.bridge.slot, field); \
    }

control Tally(inout headers_t hdr, in egress_metadata_t meta) {
#define TALLY_TABLE(part) \
    SUM_ACTIONS(part, hdr.ina.part) \
    CELL_ACTION(store, part, hdr.ina.part) \
    CELL_ACTION(add, part, hdr.ina.part) \
    CELL_ACTION(load, part, hdr.ina.part) \
    @hidden table tally_##part { \
        key = { \
            meta.values: exact; \
        } \
        actions = { do_store_##part; do_add_##part; do_load_##part; NoAction; } \
        const default_action = NoAction(); \
        const entries = { \
            VALUES_STORE: do_store_##part(); \
            VALUES_ADD: do_add_##part(); \
            VALUES_LOAD: do_load_##part(); \
        } \
    }
    TALLY_TABLE(contributors)
    TALLY_TABLE(weight)
    TALLY_TABLE(tag_high)
    TALLY_TABLE(tag_low)

    apply {
        tally_contributors.apply();
        tally_weight.apply();
        tally_tag_high.apply();
        tally_tag_low.apply();
    }
}

// MAX compares unsigned 31-bit numbers.
control ClearTops(inout headers_t hdr, inout egress_metadata_t meta) {
    action clear_tops() {
        meta.maximum = 1;
#define CLEAR(first, lane, bits) \
        hdr.values_##first.lanes_##lane[31:31] = 0;
#define CLEAR_ALL(first, upto, next) FIELDS_##first(CLEAR)
        HEADERS(CLEAR_ALL)
    }

    apply {
        if ((hdr.ina.flags & FLAG_MAX) != 0) {
            clear_tops();
        }
    }
}

control Values(inout headers_t hdr, in egress_metadata_t meta) {
#define LANE(first, lane) hdr.values_##first.lanes_##lane
#define VALUE_TABLE(first, lane, bits) \
    SUM_ACTIONS(values_##lane, LANE(first, lane)) \
    ON_REGISTER(bit<32>, slot_values_##lane, maximum_values_##lane, \
        value = LARGER(value, LANE(first, lane)); \
        result = value; \
    ) \
    CELL_ACTION(store, values_##lane, LANE(first, lane)) \
    CELL_ACTION(add, values_##lane, LANE(first, lane)) \
    CELL_ACTION(maximum, values_##lane, LANE(first, lane)) \
    CELL_ACTION(load, values_##lane, LANE(first, lane)) \
    @hidden table values_##lane { \
        key = { \
            meta.values: exact; \
            meta.maximum: exact; \
        } \
        actions = { \
            do_store_values_##lane; \
            do_add_values_##lane; \
            do_maximum_values_##lane; \
            do_load_values_##lane; \
            NoAction; \
        } \
        const default_action = NoAction(); \
        const entries = { \
            (VALUES_STORE, 0): do_store_values_##lane(); \
            (VALUES_STORE, 1): do_store_values_##lane(); \
            (VALUES_ADD, 0): do_add_values_##lane(); \
            (VALUES_ADD, 1): do_maximum_values_##lane(); \
            (VALUES_LOAD, 0): do_load_values_##lane(); \
            (VALUES_LOAD, 1): do_load_values_##lane(); \
        } \
    }
#define VALUE_TABLES(first, upto, next) FIELDS_##first(VALUE_TABLE)
    HEADERS(VALUE_TABLES)

    apply {
#define APPLY_VALUE(first, lane, bits) values_##lane.apply();
#define APPLY_VALUES(first, upto, next) FIELDS_##first(APPLY_VALUE)
        HEADERS(APPLY_VALUES)
    }
}
