//! Arithmetic on lines. Each operation goes line by line through a copy on the stack, which lets the
//! compiler vectorise it without knowing that places don't overlap; operands and result may be the same.

use std::cmp::Ordering;

use crate::program::{LIMBS, Line};

/// Limbs of the widest value, and of what a shift looks at beside it.
const MAX_LIMBS: usize = 64;

/// Bit by bit: `f` of each pair of limbs.
#[inline(always)]
pub(super) fn bitwise(
    lines: &mut [Line],
    d: usize,
    a: usize,
    b: usize,
    n: usize,
    f: impl Fn(u64, u64) -> u64,
) {
    for i in 0..n {
        let (x, y) = (lines[a + i], lines[b + i]);
        let mut z = [0; LIMBS];
        for j in 0..LIMBS {
            z[j] = f(x[j], y[j]);
        }
        lines[d + i] = z;
    }
}

/// d = a + b.
#[inline(always)]
pub(super) fn add(lines: &mut [Line], d: usize, a: usize, b: usize, n: usize) {
    let mut carry = false;
    for i in 0..n {
        let (x, y) = (lines[a + i], lines[b + i]);
        let mut z = [0; LIMBS];
        for j in 0..LIMBS {
            (z[j], carry) = x[j].carrying_add(y[j], carry);
        }
        lines[d + i] = z;
    }
}

/// d = a - b.
#[inline(always)]
pub(super) fn sub(lines: &mut [Line], d: usize, a: usize, b: usize, n: usize) {
    let mut borrow = false;
    for i in 0..n {
        let (x, y) = (lines[a + i], lines[b + i]);
        let mut z = [0; LIMBS];
        for j in 0..LIMBS {
            (z[j], borrow) = x[j].borrowing_sub(y[j], borrow);
        }
        lines[d + i] = z;
    }
}

/// d = a.
#[inline(always)]
pub(super) fn copy(lines: &mut [Line], d: usize, a: usize, n: usize) {
    lines.copy_within(a..a + n, d);
}

/// d = a << by.
pub(super) fn shl(lines: &mut [Line], d: usize, a: usize, by: u64, n: usize) {
    let limbs = n * LIMBS;
    let mut from = [0; 2 * MAX_LIMBS + 1];
    // Zeros behind, the value in front of them.
    let base = MAX_LIMBS + 1;
    from[base..base + limbs].copy_from_slice(lines[a..a + n].as_flattened());
    let (whole, bits) = split(by, limbs);
    let shifted = &from[base - whole..];
    let carried = &from[base - whole - 1..];
    let out = lines[d..d + n].as_flattened_mut();
    if bits == 0 {
        out.copy_from_slice(&shifted[..limbs]);
        return;
    }
    for ((out, high), low) in out.iter_mut().zip(shifted).zip(carried) {
        *out = high << bits | low >> (64 - bits);
    }
}

/// d = a >> by.
pub(super) fn shr(lines: &mut [Line], d: usize, a: usize, by: u64, n: usize) {
    let limbs = n * LIMBS;
    let mut from = [0; 2 * MAX_LIMBS + 1];
    from[..limbs].copy_from_slice(lines[a..a + n].as_flattened());
    let (whole, bits) = split(by, limbs);
    let shifted = &from[whole..];
    let carried = &from[whole + 1..];
    let out = lines[d..d + n].as_flattened_mut();
    if bits == 0 {
        out.copy_from_slice(&shifted[..limbs]);
        return;
    }
    for ((out, low), high) in out.iter_mut().zip(shifted).zip(carried) {
        *out = low >> bits | high << (64 - bits);
    }
}

/// Whole limbs, no more than there are, and the bits of the rest.
fn split(by: u64, limbs: usize) -> (usize, u32) {
    if by >= limbs as u64 * 64 {
        return (limbs, 0);
    }
    ((by / 64) as usize, (by % 64) as u32)
}

/// Which one is larger.
pub(super) fn compare(lines: &[Line], a: usize, b: usize, n: usize) -> Ordering {
    let (a, b) = (lines[a..a + n].as_flattened(), lines[b..b + n].as_flattened());
    a.iter().rev().cmp(b.iter().rev())
}

/// Is it below zero, as a two's complement?
pub(super) fn is_negative(lines: &[Line], a: usize, n: usize) -> bool {
    lines[a + n - 1][LIMBS - 1] >> 63 == 1
}
