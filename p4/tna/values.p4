// SPDX-License-Identifier: Apache-2.0
//
// The tally and the values of a slice against those of its slot, as the slot's state decided. A stage
// has four stateful ALUs, and a table uses all of them: four lanes each.

// The tables of a header's lanes: T(header, four lanes).
#define FOURS_0(T) \
    T(0, 0, 1, 2, 3) T(0, 4, 5, 6, 7) T(0, 8, 9, 10, 11) T(0, 12, 13, 14, 15) \
    T(0, 16, 17, 18, 19) T(0, 20, 21, 22, 23) T(0, 24, 25, 26, 27) T(0, 28, 29, 30, 31)
#define FOURS_32(T) \
    T(32, 32, 33, 34, 35) T(32, 36, 37, 38, 39) T(32, 40, 41, 42, 43) T(32, 44, 45, 46, 47) \
    T(32, 48, 49, 50, 51) T(32, 52, 53, 54, 55) T(32, 56, 57, 58, 59) T(32, 60, 61, 62, 63)

REGISTER(bit<32>, slot_contributors)
REGISTER(bit<32>, slot_weight)
REGISTER(bit<32>, slot_tag_high)
REGISTER(bit<32>, slot_tag_low)
// All bits of these together are those of the widest slice: so P4Info tells how many values it has.
#define SLOT_VALUES(first, lane, bits) REGISTER(bit<bits>, slot_values_##lane)
#define SLOT_VALUES_ALL(first, upto, next) FIELDS_##first(SLOT_VALUES)
HEADERS(SLOT_VALUES_ALL)

// What a slot's cell and a packet's field do to each other. The sum ends up in both: this packet may be
// the one that carries it on.
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

control Tally(inout headers_t hdr, in egress_metadata_t meta) {
    SUM_ACTIONS(contributors, hdr.ina.contributors)
    SUM_ACTIONS(weight, hdr.ina.weight)
    SUM_ACTIONS(tag_high, hdr.ina.tag_high)
    SUM_ACTIONS(tag_low, hdr.ina.tag_low)

#define TALLY_ACTION(does) \
    action does##_tally() { \
        EXECUTE(does##_contributors, meta.bridge.slot, hdr.ina.contributors); \
        EXECUTE(does##_weight, meta.bridge.slot, hdr.ina.weight); \
        EXECUTE(does##_tag_high, meta.bridge.slot, hdr.ina.tag_high); \
        EXECUTE(does##_tag_low, meta.bridge.slot, hdr.ina.tag_low); \
    }
    TALLY_ACTION(store)
    TALLY_ACTION(add)
    TALLY_ACTION(load)

    action keep_tally() {}

    @hidden
    table tally {
        key = {
            meta.values: exact;
        }
        actions = { store_tally; add_tally; load_tally; keep_tally; }
        const default_action = keep_tally();
        const entries = {
            VALUES_STORE: store_tally();
            VALUES_ADD: add_tally();
            VALUES_LOAD: load_tally();
        }
    }

    apply {
        tally.apply();
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
#define VALUE_ACTIONS(first, lane, bits) \
    SUM_ACTIONS(values_##lane, hdr.values_##first.lanes_##lane) \
    ON_REGISTER(bit<32>, slot_values_##lane, maximum_values_##lane, \
        value = LARGER(value, hdr.values_##first.lanes_##lane); \
        result = value; \
    )
#define VALUE_ACTIONS_ALL(first, upto, next) FIELDS_##first(VALUE_ACTIONS)
    HEADERS(VALUE_ACTIONS_ALL)

#define FOUR_ACTION(does, first, a, b, c, d) \
    action does##_##a() { \
        EXECUTE(does##_values_##a, meta.bridge.slot, hdr.values_##first.lanes_##a); \
        EXECUTE(does##_values_##b, meta.bridge.slot, hdr.values_##first.lanes_##b); \
        EXECUTE(does##_values_##c, meta.bridge.slot, hdr.values_##first.lanes_##c); \
        EXECUTE(does##_values_##d, meta.bridge.slot, hdr.values_##first.lanes_##d); \
    }
#define FOUR_TABLE(first, a, b, c, d) \
    FOUR_ACTION(store, first, a, b, c, d) \
    FOUR_ACTION(add, first, a, b, c, d) \
    FOUR_ACTION(maximum, first, a, b, c, d) \
    FOUR_ACTION(load, first, a, b, c, d) \
    action keep_##a() {} \
    @hidden table values_##a { \
        key = { \
            meta.values: exact; \
            meta.maximum: exact; \
        } \
        actions = { store_##a; add_##a; maximum_##a; load_##a; keep_##a; } \
        const default_action = keep_##a(); \
        const entries = { \
            (VALUES_STORE, 0): store_##a(); \
            (VALUES_STORE, 1): store_##a(); \
            (VALUES_ADD, 0): add_##a(); \
            (VALUES_ADD, 1): maximum_##a(); \
            (VALUES_LOAD, 0): load_##a(); \
            (VALUES_LOAD, 1): load_##a(); \
        } \
    }
#define FOUR_TABLES(first, upto, next) FOURS_##first(FOUR_TABLE)
    HEADERS(FOUR_TABLES)

    apply {
#define APPLY_FOUR(first, a, b, c, d) values_##a.apply();
#define APPLY_FOURS(first, upto, next) FOURS_##first(APPLY_FOUR)
        HEADERS(APPLY_FOURS)
    }
}
