// SPDX-License-Identifier: Apache-2.0
//
// The slot's state except its values: docs/specification.md, section 5.1. Each read-modify-write is one
// action, because BMv2 locks registers for the duration of an action.

control Slot(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    action aggregate() {
        bit<16> owner;
        bit<32> current;
        bit<64> seen;
        bit<8> count;
        slot_job.read(owner, meta.slot);
        slot_seq.read(current, meta.slot);
        bit<32> ahead = hdr.ina.seq - current;
        if (owner != hdr.ina.job || (ahead != 0 && ahead < 0x80000000)) {
            // The slice is newer: it takes over the slot, which is then an empty slot of this slice.
            slot_job.write(meta.slot, hdr.ina.job);
            slot_seq.write(meta.slot, hdr.ina.seq);
            ahead = 0;
            seen = 0;
            count = 0;
        } else {
            slot_bitmap.read(seen, meta.slot);
            slot_count.read(count, meta.slot);
        }

        if (ahead != 0) {
            meta.outcome = OUTCOME_PROBE;
            job_stale.count(meta.job_index);
        } else {
            if ((seen & meta.child_bit) == 0) {
                job_contributed.count(meta.job_index);
                if (count == 0) {
                    meta.values = VALUES_STORE;
                } else {
                    bit<32> contributors;
                    bit<32> weight;
                    bit<32> tag_high;
                    bit<32> tag_low;
                    meta.values = VALUES_ADD;
                    slot_contributors.read(contributors, meta.slot);
                    slot_weight.read(weight, meta.slot);
                    slot_tag_high.read(tag_high, meta.slot);
                    slot_tag_low.read(tag_low, meta.slot);
                    hdr.ina.contributors = hdr.ina.contributors + contributors;
                    hdr.ina.weight = hdr.ina.weight + weight;
                    hdr.ina.tag_high = hdr.ina.tag_high + tag_high;
                    hdr.ina.tag_low = hdr.ina.tag_low + tag_low;
                }
                count = count + 1;
                slot_bitmap.write(meta.slot, seen | meta.child_bit);
                slot_count.write(meta.slot, count);
                slot_contributors.write(meta.slot, hdr.ina.contributors);
                slot_weight.write(meta.slot, hdr.ina.weight);
                slot_tag_high.write(meta.slot, hdr.ina.tag_high);
                slot_tag_low.write(meta.slot, hdr.ina.tag_low);
                if (count == hdr.hop.fan_in) {
                    job_completed.count(meta.job_index);
                }
            } else {
                job_duplicate.count(meta.job_index);
                if (count == hdr.hop.fan_in) {
                    meta.values = VALUES_LOAD;
                    slot_contributors.read(hdr.ina.contributors, meta.slot);
                    slot_weight.read(hdr.ina.weight, meta.slot);
                    slot_tag_high.read(hdr.ina.tag_high, meta.slot);
                    slot_tag_low.read(hdr.ina.tag_low, meta.slot);
                }
            }

            if (count != hdr.hop.fan_in) {
                if ((hdr.ina.flags & FLAG_RETRANSMIT) != 0) {
                    meta.outcome = OUTCOME_PROBE;
                } else {
                    meta.outcome = OUTCOME_CONSUME;
                    job_consumed.count(meta.job_index);
                    mark_to_drop(standard_metadata);
                }
            }
        }
    }

    apply {
        aggregate();
    }
}
