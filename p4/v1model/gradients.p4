// SPDX-License-Identifier: Apache-2.0

control Gradients(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    Slot() slot;
    Values() values;

    action pass_probe() {
        job_probe.count(meta.job_index);
    }

    action pass_gradient() {
        job_forwarded.count(meta.job_index);
    }

    apply {
        // A PROBE passes all slots, because its slice must not be added any more.
        if ((hdr.ina.flags & FLAG_PROBE) != 0) {
            pass_probe();
        } else if (hdr.hop.aggregate == 1) {
            slot.apply(hdr, meta, standard_metadata);
            values.apply(hdr, meta);
        } else {
            pass_gradient();
        }
    }
}
