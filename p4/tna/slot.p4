// SPDX-License-Identifier: Apache-2.0
//
// The slot's state except its values: DESIGN.md, section 3. A stateful ALU has two comparisons and one
// result, so what v1model decides in one action takes three stages here: whose slot it is, which slice of
// that job it holds, and whether this child is new to that slice.

// The slice's number against the slot's: they wrap, and half way round counts as older.
#define IS_NEWER(a, b) ((int<32>)(a - b) > 0)
#define IS_OLDER(a, b) ((int<32>)(a - b) < 0)

REGISTER(bit<16>, slot_job)
PAIR_REGISTER(slot_slice)
// The slice's number again, because each of its results takes a register of its own.
REGISTER(bit<32>, slot_seq_newer)
REGISTER(bit<32>, slot_seq_older)
REGISTER(bit<8>, slot_count)

control Slot(in headers_t hdr, inout egress_metadata_t meta) {
    // 1. Whose is it? A GRADIENT that gets this far makes it its job's.
    ON_REGISTER(bit<16>, slot_job, job_claim,
        result = 0;
        if (value != hdr.ina.job) {
            result = 1;
        }
        value = hdr.ina.job;
    )
    ON_REGISTER(bit<16>, slot_job, job_look,
        result = 0;
        if (value != hdr.ina.job) {
            result = 1;
        }
    )

    action claim() {
        EXECUTE(job_claim, meta.bridge.slot, meta.foreign);
    }

    action look() {
        EXECUTE(job_look, meta.bridge.slot, meta.foreign);
    }

    @hidden
    table owner {
        key = {
            hdr.ina.kind: exact;
        }
        actions = { claim; look; NoAction; }
        // None but these two come here. A default action can't reach a register.
        const default_action = NoAction();
        const entries = {
            KIND_GRADIENT: claim();
            KIND_RESULT: look();
        }
    }

    // 2. Which slice does it hold? The old bitmap is read above the `if`: read inside of it, Tofino's
    // compiler would return the new one.
    ON_PAIR(slot_slice, slice_take,
        result = 0;
        value.seq = hdr.ina.seq;
        value.children = meta.bridge.operand;
    )
    ON_PAIR(slot_slice, slice_meet,
        result = value.children;
        if (IS_NEWER(hdr.ina.seq, value.seq)) {
            value.seq = hdr.ina.seq;
            value.children = meta.bridge.operand;
        } else if (hdr.ina.seq == value.seq) {
            value.children = value.children | meta.bridge.operand;
        }
    )
    ON_PAIR(slot_slice, slice_release,
        result = 0;
        if (value.seq == hdr.ina.seq) {
            value.seq = meta.bridge.operand;
            value.children = 0;
        }
    )
    ON_REGISTER(bit<32>, slot_seq_newer, newer_take,
        result = 0;
        value = hdr.ina.seq;
    )
    ON_REGISTER(bit<32>, slot_seq_newer, newer_meet,
        result = 0;
        if (IS_NEWER(hdr.ina.seq, value)) {
            value = hdr.ina.seq;
            result = 1;
        }
    )
    ON_REGISTER(bit<32>, slot_seq_newer, newer_release,
        result = 0;
        if (value == hdr.ina.seq) {
            value = meta.bridge.operand;
            result = 1;
        }
    )
    ON_REGISTER(bit<32>, slot_seq_older, older_take,
        result = 0;
        value = hdr.ina.seq;
    )
    ON_REGISTER(bit<32>, slot_seq_older, older_meet,
        result = 0;
        if (IS_OLDER(hdr.ina.seq, value)) {
            result = 1;
        } else {
            value = hdr.ina.seq;
        }
    )
    ON_REGISTER(bit<32>, slot_seq_older, older_release,
        result = 0;
        if (value == hdr.ina.seq) {
            value = meta.bridge.operand;
        }
    )

    // An action reaches one register, so what is done to the slot's three words takes three tables.
    @hidden
    action take_slice() {
        EXECUTE_ONLY(slice_take, meta.bridge.slot);
    }
    @hidden
    action meet_slice() {
        EXECUTE(slice_meet, meta.bridge.slot, meta.children);
    }
    @hidden
    action release_slice() {
        EXECUTE_ONLY(slice_release, meta.bridge.slot);
    }
    @hidden
    action take_newer() {
        EXECUTE_ONLY(newer_take, meta.bridge.slot);
    }
    @hidden
    action meet_newer() {
        EXECUTE(newer_meet, meta.bridge.slot, meta.newer);
    }
    @hidden
    action release_newer() {
        EXECUTE(newer_release, meta.bridge.slot, meta.released);
    }
    @hidden
    action take_older() {
        EXECUTE_ONLY(older_take, meta.bridge.slot);
    }
    @hidden
    action meet_older() {
        EXECUTE(older_meet, meta.bridge.slot, meta.older);
    }
    @hidden
    action release_older() {
        EXECUTE_ONLY(older_release, meta.bridge.slot);
    }

    // Another job's slot counts as older than anything; the packet's view of its bitmap stays zero: nobody was
    // there. Emptying is conditional: with unicast results several copies pass, and the later ones must
    // not touch a slot that is in use again. The job stays: its next slice finds its own slot.
#define SLICE_TABLE(word) \
    @hidden \
    table word { \
        key = { \
            hdr.ina.kind: exact; \
            meta.foreign: exact; \
        } \
        actions = { take_##word; meet_##word; release_##word; NoAction; } \
        const default_action = NoAction(); \
        const entries = { \
            (KIND_GRADIENT, 1): take_##word(); \
            (KIND_GRADIENT, 0): meet_##word(); \
            (KIND_RESULT, 0): release_##word(); \
        } \
    }
    SLICE_TABLE(slice)
    SLICE_TABLE(newer)
    SLICE_TABLE(older)

    // 3. Is this child new to it, and how many children has it now?
    ON_REGISTER(bit<8>, slot_count, count_one,
        value = 1;
        result = value;
    )
    ON_REGISTER(bit<8>, slot_count, count_more,
        value = value + 1;
        result = value;
    )
    ON_REGISTER(bit<8>, slot_count, count_read,
        result = value;
    )

    action first() {
        meta.values = VALUES_STORE;
        EXECUTE(count_one, meta.bridge.slot, meta.count);
    }

    action further() {
        meta.values = VALUES_ADD;
        EXECUTE(count_more, meta.bridge.slot, meta.count);
    }

    action again() {
        meta.values = VALUES_LOAD;
        EXECUTE(count_read, meta.bridge.slot, meta.count);
    }

    action stale() {
        meta.stale = 1;
    }

    @hidden
    table contribution {
        key = {
            meta.newer[0:0]: ternary @name("newer");
            meta.older[0:0]: ternary @name("older");
            meta.children: ternary @name("children");
            hdr.hop.child: ternary @name("child");
        }
        actions = { first; further; again; stale; NoAction; }
        const default_action = NoAction();
#define SEEN(child) (_, _, 32w1 << child &&& 32w1 << child, child): again();
        const entries = {
            (1, _, _, _): first();
            (_, 1, _, _): stale();
            // Taken from another job, or released: no child's yet.
            (_, _, 0, _): first();
            CHILDREN(SEEN)
            (_, _, _, _): further();
        }
    }

    apply {
        owner.apply();
        slice.apply();
        newer.apply();
        older.apply();
        if (hdr.ina.kind == KIND_GRADIENT) {
            contribution.apply();
        }
    }
}
