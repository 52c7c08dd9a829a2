//! GRADIENT packets, as DESIGN.md sections 2 and 3 want them treated.

use crate::support::{Rig, Sent, UP, received, values};

#[test]
fn first_of_two_children_is_consumed_and_the_second_carries_the_sum() {
    let mut rig = Rig::aggregating(2);
    assert!(rig.send(1, &Sent::gradient(0, 2, 1, values(3)).frame()).is_empty());
    let out = rig.send(2, &Sent::gradient(1, 2, 1, values(5)).frame());
    let [(UP, frame)] = out.as_slice() else { panic!("{out:?}") };
    let sum = received(frame);
    let expected: Vec<i32> = values(3).iter().zip(values(5)).map(|(a, b)| a.wrapping_add(b)).collect();
    assert_eq!(sum.values.unwrap().to_vec(), expected);
}
