//! Sums of many numbers that lie side by side in one wide value.
//!
//! P4 has no vectors. A program adds lanes of a wide field as
//! `((a & rests) + (b & rests)) ^ ((a ^ b) & tops)`. `tops` has the highest bit of each lane, and
//! `rests` has all other bits. Without the highest bits, no lane carries into the next lane. The
//! sum of two highest bits without a carry is an exclusive or. A processor adds lanes with one
//! instruction, so this module recognises such expressions, with the operands of each operation in
//! either order.

use crate::compile::term::{Binary, Kind, Term};
use crate::json::number::Number;
use crate::program::MAX_BITS;

const LANE_BITS: u32 = 32;
/// The highest bit of a lane.
const TOP: u32 = 1 << (LANE_BITS - 1);

/// Returns the two values if `left ^ right` adds their lanes.
/// Both values are unsigned and of the same width.
pub(super) fn addends<'a>(left: &'a Term, right: &'a Term) -> Option<[&'a Term; 2]> {
    of_rests_and_tops(left, right).or_else(|| of_rests_and_tops(right, left))
}

fn of_rests_and_tops<'a>(rests: &'a Term, tops: &'a Term) -> Option<[&'a Term; 2]> {
    let (difference, top_mask) = masked(tops)?;
    let [a, b] = operands(difference, Binary::Xor)?;
    let [x, y] = operands(without_mask(rests, a.bound.bits), Binary::Add)?;
    let ((x, x_mask), (y, y_mask)) = (masked(x)?, masked(y)?);
    let is_same = a.bound == b.bound && !a.bound.signed && ([x, y] == [a, b] || [y, x] == [a, b]);
    // A value can be wider than any mask that a program can contain. This function makes no mask
    // for such a value.
    let bits =
        Some(a.bound.bits).filter(|bits| is_same && *bits <= MAX_BITS && bits.is_multiple_of(LANE_BITS))?;
    let in_lanes = |lane| Number::in_lanes(lane, bits / LANE_BITS);
    let is_sum = *top_mask == in_lanes(TOP) && [x_mask, y_mask] == [&in_lanes(!TOP); 2];
    is_sum.then_some([a, b])
}

/// Returns the term without its mask, if the mask keeps all of `bits` bits.
fn without_mask(term: &Term, bits: u32) -> &Term {
    match masked(term) {
        Some((inner, mask)) if mask.mask_bits().is_some_and(|kept| kept >= bits) => inner,
        _ => term,
    }
}

/// Returns a term and the constant that masks it.
fn masked(term: &Term) -> Option<(&Term, &Number)> {
    let [left, right] = operands(term, Binary::And)?;
    right.constant().map(|mask| (left, mask)).or_else(|| left.constant().map(|mask| (right, mask)))
}

fn operands(term: &Term, wanted: Binary) -> Option<[&Term; 2]> {
    match &term.kind {
        Kind::Binary(op, left, right) if *op == wanted => Some([left, right]),
        _ => None,
    }
}
