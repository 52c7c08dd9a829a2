//! Tests of the slice widths against the table in section 3.4 of the specification.

use tributary_wire::{SliceWidth, frame};

/// Rows of the table: V, blocks, bytes of values, longest IPv4 packet, B, SUM slices a MAX slice.
const TABLE: [(usize, u8, usize, usize, usize, usize); 7] = [
    (32, 1, 128, 232, 1, 10),
    (64, 2, 256, 360, 1, 21),
    (128, 4, 512, 616, 1, 42),
    (256, 8, 1_024, 1_128, 2, 42),
    (512, 16, 2_048, 2_152, 4, 42),
    (1_024, 32, 4_096, 4_200, 8, 42),
    (2_048, 64, 8_192, 8_296, 16, 42),
];

#[test]
fn the_widths_are_those_of_the_specification() {
    let rows: Vec<_> = SliceWidth::all()
        .map(|width| {
            let (values, blocks, bytes) = (width.values(), width.blocks(), width.bytes());
            (values, blocks, bytes, width.mtu(), width.blocks_of_values(), width.slices_bounded_by_one())
        })
        .collect();
    assert_eq!(rows, TABLE);
    let named = [SliceWidth::NARROWEST, SliceWidth::ETHERNET, SliceWidth::WIDEST];
    assert_eq!(named.map(SliceWidth::values), [32, 256, 2_048]);
}

#[test]
fn a_block_of_values_has_128_values_at_most() {
    for width in SliceWidth::all() {
        assert_eq!(width.values_in_block(), width.values().min(128));
    }
}

#[test]
fn there_are_no_other_widths() {
    for values in 0..=5_000 {
        let row = TABLE.iter().find(|row| row.0 == values);
        let width = SliceWidth::from_values(values);
        assert_eq!(width.map(SliceWidth::blocks), row.map(|row| row.1), "{values} values");
    }
    for blocks in 0..=u8::MAX {
        let row = TABLE.iter().find(|row| row.1 == blocks);
        let width = SliceWidth::from_blocks(blocks);
        assert_eq!(width.map(SliceWidth::values), row.map(|row| row.0), "{blocks} blocks");
    }
}

#[test]
fn the_widest_slice_is_the_last_one_whose_packets_fit() {
    for (values, _, _, longest, ..) in TABLE {
        let widest = |mtu| SliceWidth::widest_within(mtu).map(SliceWidth::values);
        assert_eq!(widest(longest), Some(values));
        assert_eq!(widest(longest - 1), (values > 32).then_some(values / 2));
    }
    // The MTUs of Ethernet and of jumbo frames.
    assert_eq!(SliceWidth::widest_within(1_500), Some(SliceWidth::ETHERNET));
    assert_eq!(SliceWidth::widest_within(9_000), Some(SliceWidth::WIDEST));
    assert_eq!(SliceWidth::widest_within(0), None);
}

#[test]
fn the_longest_frame_has_14_bytes_of_ethernet() {
    for (width, row) in SliceWidth::all().zip(TABLE) {
        assert_eq!(frame::longest_frame(width), 14 + row.3);
    }
}
