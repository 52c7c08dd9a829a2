//! Arithmetic on lines.
//! Each operation copies line by line through the stack. So the compiler can vectorise it without
//! knowing that places do not overlap, and operands and result may be the same.

use std::cmp::Ordering;

use crate::program::{LIMBS, Line, LineIndex};

/// The number of limbs of the widest value.
const MAX_LIMBS: usize = 64;

/// Computes d = a & b.
#[inline(always)]
pub(super) fn and(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    bitwise(lines, d, a, b, n, |a, b| a & b);
}

/// Computes d = a | b.
#[inline(always)]
pub(super) fn or(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    bitwise(lines, d, a, b, n, |a, b| a | b);
}

/// Computes d = a ^ b.
#[inline(always)]
pub(super) fn xor(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    bitwise(lines, d, a, b, n, |a, b| a ^ b);
}

#[inline(always)]
fn bitwise(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8, f: impl Fn(u64, u64) -> u64) {
    let (d, a, b) = (usize::from(d), usize::from(a), usize::from(b));
    for i in 0..usize::from(n) {
        let (x, y) = (lines[a + i], lines[b + i]);
        let mut z = [0; LIMBS];
        for j in 0..LIMBS {
            z[j] = f(x[j], y[j]);
        }
        lines[d + i] = z;
    }
}

/// Computes d = a + b.
#[inline(always)]
pub(super) fn add(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    carrying(lines, d, a, b, n, u64::carrying_add);
}

/// Computes d = a - b.
#[inline(always)]
pub(super) fn sub(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    carrying(lines, d, a, b, n, u64::borrowing_sub);
}

#[inline(always)]
fn carrying(
    lines: &mut [Line],
    d: LineIndex,
    a: LineIndex,
    b: LineIndex,
    n: u8,
    f: impl Fn(u64, u64, bool) -> (u64, bool),
) {
    let (d, a, b) = (usize::from(d), usize::from(a), usize::from(b));
    let mut carry = false;
    for i in 0..usize::from(n) {
        let (x, y) = (lines[a + i], lines[b + i]);
        let mut z = [0; LIMBS];
        for j in 0..LIMBS {
            (z[j], carry) = f(x[j], y[j], carry);
        }
        lines[d + i] = z;
    }
}

/// Computes d = a + b in each lane of 32 bits.
#[inline(always)]
pub(super) fn add_lanes(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    let (d, a, b) = (usize::from(d), usize::from(a), usize::from(b));
    for i in 0..usize::from(n) {
        lines[d + i] = sum_of_lanes(&lines[a + i], &lines[b + i]);
    }
}

/// Adds the lanes of `cells` to the lines at `sum`, and writes the sums to both. The lines at `held`
/// get the old contents of the last `n` lines of `cells`.
#[inline(always)]
pub(super) fn add_lanes_to(cells: &mut [Line], lines: &mut [Line], held: LineIndex, sum: LineIndex, n: u8) {
    let (held, sum, n) = (usize::from(held), usize::from(sum), usize::from(n));
    lines[held..held + n].copy_from_slice(&cells[cells.len() - n..]);
    for (cell, sum) in cells.iter_mut().zip(&mut lines[sum..]) {
        let result = sum_of_lanes(cell, sum);
        *sum = result;
        *cell = result;
    }
}

#[inline(always)]
fn sum_of_lanes(a: &Line, b: &Line) -> Line {
    // In this form the compiler uses the wide vectors, which it does not use for numbers of 32
    // bits.
    const TOPS: u64 = 0x8000_0000_8000_0000;
    let mut sum = [0; LIMBS];
    for i in 0..LIMBS {
        sum[i] = ((a[i] & !TOPS) + (b[i] & !TOPS)) ^ ((a[i] ^ b[i]) & TOPS);
    }
    sum
}

/// Computes d = a * b. `d` must differ from `a` and `b`.
pub(super) fn mul(lines: &mut [Line], d: LineIndex, a: LineIndex, b: LineIndex, n: u8) {
    let count = usize::from(n) * LIMBS;
    limbs_mut(lines, d, n).fill(0);
    for i in 0..count {
        let x = limbs(lines, a, n)[i];
        let mut carry = 0;
        for j in 0..count - i {
            let y = limbs(lines, b, n)[j];
            let place = &mut limbs_mut(lines, d, n)[i + j];
            (*place, carry) = x.carrying_mul_add(y, *place, carry);
        }
    }
}

/// Copies a to d.
pub(super) fn copy(lines: &mut [Line], d: LineIndex, a: LineIndex, n: u8) {
    let a = usize::from(a);
    lines.copy_within(a..a + usize::from(n), d.into());
}

/// Copies the word a to d, with zeros above it.
pub(super) fn widen(lines: &mut [Line], d: LineIndex, a: u64, n: u8) {
    limbs_mut(lines, d, n).fill(0);
    lines[usize::from(d)][0] = a;
}

/// Copies a to d, with zeros above it. `a` has `from` lines, and `d` has `n` lines.
pub(super) fn extend(lines: &mut [Line], d: LineIndex, a: LineIndex, from: u8, n: u8) {
    copy(lines, d, a, from);
    limbs_mut(lines, d + LineIndex::from(from), n - from).fill(0);
}

/// Computes d = a << by.
pub(super) fn shl(lines: &mut [Line], d: LineIndex, a: LineIndex, by: u64, n: u8) {
    // The zeros behind the value are shifted in.
    let mut from = [0; 2 * MAX_LIMBS + 1];
    let base = MAX_LIMBS + 1;
    let source = limbs(lines, a, n);
    from[base..base + source.len()].copy_from_slice(source);
    let out = limbs_mut(lines, d, n);
    let (whole, bits) = split(by, out.len());
    let shifted = &from[base - whole..];
    if bits == 0 {
        out.copy_from_slice(&shifted[..out.len()]);
        return;
    }
    let carried = &from[base - whole - 1..];
    for ((out, high), low) in out.iter_mut().zip(shifted).zip(carried) {
        *out = high << bits | low >> (64 - bits);
    }
}

/// Computes d = a >> by.
pub(super) fn shr(lines: &mut [Line], d: LineIndex, a: LineIndex, by: u64, n: u8) {
    // The zeros in front of the value are shifted in.
    let mut from = [0; 2 * MAX_LIMBS + 1];
    let source = limbs(lines, a, n);
    from[..source.len()].copy_from_slice(source);
    let out = limbs_mut(lines, d, n);
    let (whole, bits) = split(by, out.len());
    let shifted = &from[whole..];
    if bits == 0 {
        out.copy_from_slice(&shifted[..out.len()]);
        return;
    }
    let carried = &from[whole + 1..];
    for ((out, low), high) in out.iter_mut().zip(shifted).zip(carried) {
        *out = low >> bits | high << (64 - bits);
    }
}

/// Splits a shift into whole limbs, at most `limbs`, and the remaining bits.
fn split(by: u64, limbs: usize) -> (usize, u32) {
    if by >= limbs as u64 * 64 {
        return (limbs, 0);
    }
    ((by / 64) as usize, (by % 64) as u32)
}

/// Compares a and b as unsigned numbers.
pub(super) fn compare(lines: &[Line], a: LineIndex, b: LineIndex, n: u8) -> Ordering {
    limbs(lines, a, n).iter().rev().cmp(limbs(lines, b, n).iter().rev())
}

/// Compares a and b in two's complement.
pub(super) fn compare_signed(lines: &[Line], a: LineIndex, b: LineIndex, n: u8) -> Ordering {
    let negative = |at| limbs(lines, at, n).last().is_some_and(|limb| limb >> 63 == 1);
    negative(b).cmp(&negative(a)).then_with(|| compare(lines, a, b, n))
}

fn limbs(lines: &[Line], first: LineIndex, n: u8) -> &[u64] {
    let first = usize::from(first);
    lines[first..first + usize::from(n)].as_flattened()
}

fn limbs_mut(lines: &mut [Line], first: LineIndex, n: u8) -> &mut [u64] {
    let first = usize::from(first);
    lines[first..first + usize::from(n)].as_flattened_mut()
}

#[cfg(test)]
mod tests;
