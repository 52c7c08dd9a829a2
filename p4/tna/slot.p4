// SPDX-License-Identifier: Apache-2.0
//
// The slot's state except its values: docs/specification.md, section 5.1. A stateful ALU has two comparisons
// and one result, so the decision, which is one action in v1model, takes three stages here: the job of the
// slot, the slice that the slot holds, and the children that have contributed to this slice.

// Compare the seq of the packet with the seq of the slot. They wrap, and a difference of 2^31 is older.
#define IS_NEWER(a, b) ((int<32>)(a - b) > 0)
#define IS_OLDER(a, b) ((int<32>)(a - b) < 0)

REGISTER(bit<16>, slot_job)
PAIR_REGISTER(slot_slice)
// The seq of the slot again, because each result of a comparison needs a separate register.
REGISTER(bit<32>, slot_seq_newer)
REGISTER(bit<32>, slot_seq_older)
REGISTER(bit<8>, slot_count)

control Slot(in headers_t hdr, inout egress_metadata_t meta) {
    // 1. The job of the slot. A GRADIENT sets it to its own job.
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
        // Only these two kinds come here. A default action cannot access a register.
        const default_action = NoAction();
        const entries = {
            KIND_GRADIENT: claim();
            KIND_RESULT: look();
        }
    }

    // 2. The slice that the slot holds. The old bitmap is read before the `if`: inside it, the program of
    // Tofino's compiler would return the new bitmap.
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

    // An action can access one register, so the three words of the slot need three tables.
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

    // A slot of another job counts as older than any slice, and its bitmap as empty. A RESULT empties the slot
    // only if the slot holds its slice: unicast results pass in several copies, and later copies must not
    // change a slot that is in use again. The job stays, for its next slice in this slot.
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

    // 3. Has this child contributed before, and how many children have contributed now?
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
            // The slot was taken from another job, or was released: no child has contributed.
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
