//! Tests of the values of a slice, which are big-endian on the wire.

use tributary_wire::ValuesView;
use tributary_wire::values::{read, to_bytes, write};

const VALUES: [i32; 3] = [0x0102_0304, -1, 7];
const BYTES: [u8; 12] = [1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7];

#[test]
fn values_are_big_endian() {
    assert_eq!(to_bytes(&VALUES), BYTES);
    let mut bytes = [0xee; 12];
    write(&VALUES, &mut bytes);
    assert_eq!(bytes, BYTES);
    let mut values = [0; 3];
    read(ValuesView::new(&BYTES), &mut values);
    assert_eq!(values, VALUES);
}

#[test]
fn reading_ends_with_the_shorter_side() {
    let mut more = [5; 4];
    read(ValuesView::new(&BYTES), &mut more);
    assert_eq!(more, [0x0102_0304, -1, 7, 5]);
    let mut fewer = [5; 2];
    read(ValuesView::new(&BYTES), &mut fewer);
    assert_eq!(fewer, [0x0102_0304, -1]);
}

#[test]
fn a_view_has_the_values_in_order() {
    let view = ValuesView::new(&BYTES);
    assert_eq!((view.len(), view.is_empty(), view.bytes()), (3, false, &BYTES[..]));
    assert_eq!(view.iter().collect::<Vec<_>>(), VALUES);

    let (first, others) = view.split_first().unwrap();
    assert_eq!((first, others), (0x0102_0304, ValuesView::new(&BYTES[4..])));

    let chunks: Vec<_> = view.chunks(2).collect();
    assert_eq!(chunks, [ValuesView::new(&BYTES[..8]), ValuesView::new(&BYTES[8..])]);
}

#[test]
fn an_empty_view_has_no_first_value() {
    let view = ValuesView::new(&[]);
    assert_eq!((view.len(), view.is_empty(), view.bytes()), (0, true, &[][..]));
    assert_eq!(view.split_first(), None);
    assert_eq!(view.chunks(2).count(), 0);
}
