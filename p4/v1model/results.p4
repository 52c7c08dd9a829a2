// SPDX-License-Identifier: Apache-2.0

control Results(in headers_t hdr, in metadata_t meta) {
    // The slot is emptied only if it holds this slice: unicast results pass in several copies, and later
    // copies must not change a slot that is in use again. The job stays, for its next slice in this slot.
    action pass_result() {
        job_result.count(meta.job_index);
        if (meta.release == 1 || (hdr.hop.isValid() && hdr.hop.aggregate == 1)) {
            bit<16> owner;
            bit<32> current;
            slot_job.read(owner, meta.slot);
            slot_seq.read(current, meta.slot);
            if (owner == hdr.ina.job && current == hdr.ina.seq) {
                slot_seq.write(meta.slot, hdr.ina.seq + meta.slot_mask + 1);
                slot_bitmap.write(meta.slot, 0);
                slot_count.write(meta.slot, 0);
                job_released.count(meta.job_index);
            }
        }
    }

    apply {
        pass_result();
    }
}
