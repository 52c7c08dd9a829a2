//! Expressions whose names are resolved and whose ranges are known.
//!
//! BMv2 computes with unlimited precision, and p4c masks the values that must wrap around.
//! [`ValueRange`] is the number of bits that a value can have. With it, the compiler computes the
//! value in the fewest bits that give the same result.

use super::fault::unsupported;
use super::layout::{Slot, Storage};
use crate::error::LoadError;
use crate::json::number::Number;
use crate::program::{MAX_BITS, Word};

/// The range of a value: 0..2^bits, or -2^(bits-1)..2^(bits-1) when signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ValueRange {
    pub(super) bits: u32,
    pub(super) signed: bool,
}

/// The number of bits of a value without a limit. Such a value must be masked before it can be
/// used.
pub(super) const UNBOUNDED: u32 = u32::MAX;

impl ValueRange {
    pub(super) const BIT: Self = Self::unsigned(1);

    pub(super) const fn unsigned(bits: u32) -> Self {
        Self { bits, signed: false }
    }

    const fn signed(bits: u32) -> Self {
        Self { bits, signed: true }
    }

    /// Returns the number of bits of the value in two's complement.
    pub(super) fn signed_bits(self) -> u32 {
        if self.signed { self.bits } else { self.bits.saturating_add(1) }
    }

    fn join(self, other: Self) -> Self {
        if self.signed || other.signed {
            Self::signed(self.signed_bits().max(other.signed_bits()))
        } else {
            Self::unsigned(self.bits.max(other.bits))
        }
    }

    fn wider_by(self, bits: u32) -> Self {
        Self { bits: self.bits.saturating_add(bits), ..self }
    }
}

/// An operation on two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// A comparison of two integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Compare {
    Equal,
    Less,
}

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) kind: Kind,
    pub(super) bound: ValueRange,
}

/// The form of an expression. Truth values are 0 or 1.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Const(Number),
    Field(Storage),
    /// A field of a stack's last header: the field's word in the stack's first header, and the stack.
    Last {
        first: Word,
        stack: u16,
    },
    Lookahead {
        offset: u16,
        bits: u32,
    },
    Binary(Binary, Box<Term>, Box<Term>),
    Compare(Compare, Box<Term>, Box<Term>),
    Both(Box<Term>, Box<Term>),
    Either(Box<Term>, Box<Term>),
    Not(Box<Term>),
    Choose(Box<Term>, Box<Term>, Box<Term>),
}

impl Term {
    /// Makes the term of a constant.
    pub(super) fn number(number: Number) -> Self {
        let bits = number.bits();
        let bound = if number.is_negative() {
            ValueRange::signed(bits.saturating_add(1))
        } else {
            ValueRange::unsigned(bits)
        };
        Self { kind: Kind::Const(number), bound }
    }

    /// Makes the term of a field. A signed field is stored in two's complement of its width.
    pub(super) fn slot(slot: Slot) -> Self {
        let bits = Self { kind: Kind::Field(slot.place), bound: ValueRange::unsigned(slot.bits) };
        if !slot.signed {
            return bits;
        }
        let half = || Self::number(Number::power(slot.bits - 1));
        let value = Self::binary(Binary::Sub, Self::binary(Binary::Xor, bits, half()), half());
        Self { bound: ValueRange::signed(slot.bits), ..value }
    }

    /// Makes a term that selects one of `terms` by an index known only at run time; it is 0 behind
    /// the last one.
    pub(super) fn at(index: &Self, terms: Vec<Self>) -> Self {
        let nothing = Self::number(Number::default());
        terms.into_iter().enumerate().rev().fold(nothing, |others, (position, term)| {
            let position = Self::number(Number::from(position as u64));
            Self::choose(Self::equal(index.clone(), position), term, others)
        })
    }

    /// Returns the term's value if it is a constant.
    pub(super) fn constant(&self) -> Option<&Number> {
        match &self.kind {
            Kind::Const(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn truth(kind: Kind) -> Self {
        Self { kind, bound: ValueRange::BIT }
    }

    pub(super) fn not(self) -> Self {
        Self::truth(Kind::Not(Box::new(self)))
    }

    pub(super) fn compare(compare: Compare, left: Self, right: Self) -> Self {
        Self::truth(Kind::Compare(compare, Box::new(left), Box::new(right)))
    }

    /// Returns a condition that holds if two terms are equal.
    pub(super) fn equal(left: Self, right: Self) -> Self {
        Self::compare(Compare::Equal, left, right)
    }

    /// Returns a condition that holds if both conditions hold.
    pub(super) fn both(left: Self, right: Self) -> Self {
        Self::truth(Kind::Both(Box::new(left), Box::new(right)))
    }

    pub(super) fn choose(cond: Self, yes: Self, no: Self) -> Self {
        let bound = yes.bound.join(no.bound);
        Self { kind: Kind::Choose(Box::new(cond), Box::new(yes), Box::new(no)), bound }
    }

    /// Creates an operation on two terms.
    pub(super) fn binary(op: Binary, left: Self, right: Self) -> Self {
        let bound = match op {
            Binary::Add => left.bound.join(right.bound).wider_by(1),
            Binary::Sub if left.bound.signed || right.bound.signed => {
                left.bound.join(right.bound).wider_by(1)
            }
            Binary::Sub => ValueRange::signed(left.bound.bits.max(right.bound.bits).saturating_add(1)),
            Binary::Mul if left.bound.signed || right.bound.signed => {
                ValueRange::signed(left.bound.signed_bits().saturating_add(right.bound.signed_bits()))
            }
            Binary::Mul => left.bound.wider_by(right.bound.bits),
            Binary::And => match (left.bound.signed, right.bound.signed) {
                (false, false) => ValueRange::unsigned(left.bound.bits.min(right.bound.bits)),
                (false, true) => left.bound,
                (true, false) => right.bound,
                (true, true) => left.bound.join(right.bound),
            },
            Binary::Or | Binary::Xor => left.bound.join(right.bound),
            Binary::Shl => match right.constant().map(Number::to_u64) {
                Some(by) => {
                    left.bound.wider_by(by.and_then(|by| u32::try_from(by).ok()).unwrap_or(UNBOUNDED))
                }
                None => ValueRange { bits: UNBOUNDED, ..left.bound },
            },
            Binary::Shr => match right.constant().and_then(Number::to_u64) {
                Some(by) if !left.bound.signed && left.bound.bits != UNBOUNDED => ValueRange::unsigned(
                    left.bound.bits.saturating_sub(u32::try_from(by).unwrap_or(UNBOUNDED)),
                ),
                _ => left.bound,
            },
        };
        Self { kind: Kind::Binary(op, Box::new(left), Box::new(right)), bound }
    }

    /// Returns the position of the last of `count` elements.
    pub(super) fn last_of(count: Word) -> Self {
        Self::binary(Binary::Sub, Self::slot(Slot::word(count, 16)), Self::number(Number::from(1)))
    }

    /// Returns a wide value that may be negative, shifted to the right. For a negative x, this is
    /// ~(~x >> by).
    pub(super) fn shifted_right(value: &Self, by: &Self) -> Self {
        let ones = || Self::number(Number::from(1).negated());
        let unsigned =
            |term: Self| Self { bound: ValueRange::unsigned(value.bound.bits.saturating_sub(1)), ..term };
        let shifted = |term| Self::binary(Binary::Shr, unsigned(term), by.clone());
        let negative = Self::compare(Compare::Less, value.clone(), Self::number(Number::default()));
        let flipped = Self::binary(Binary::Xor, value.clone(), ones());
        let below = Self::binary(Binary::Xor, shifted(flipped), ones());
        Self::choose(negative, below, shifted(value.clone()))
    }

    /// Returns a value modulo 2^`width`, in two's complement.
    pub(super) fn wrapped(value: Self, width: &Self, place: &str) -> Result<Self, LoadError> {
        let width = Self::width(width, place)?;
        let half = || Self::number(Number::power(width - 1));
        let shifted = Self::binary(Binary::Add, value, half());
        let kept = Self::binary(Binary::And, shifted, Self::number(Number::mask(width)));
        let wrapped = Self::binary(Binary::Sub, kept, half());
        Ok(Self { bound: ValueRange::signed(width), ..wrapped })
    }

    /// Returns a value, clamped to the range of `width` bits.
    pub(super) fn saturated(op: &str, value: Self, width: &Self, place: &str) -> Result<Self, LoadError> {
        let width = Self::width(width, place)?;
        let (low, high) = if op == "usat_cast" {
            (Number::default(), Number::mask(width))
        } else {
            (Number::power(width - 1).negated(), Number::mask(width - 1))
        };
        let (low, high) = (Self::number(low), Self::number(high));
        let below = Self::compare(Compare::Less, value.clone(), low.clone());
        let above = Self::compare(Compare::Less, high.clone(), value.clone());
        let bound = low.bound.join(high.bound);
        let clamped = Self::choose(below, low, Self::choose(above, high, value));
        Ok(Self { bound, ..clamped })
    }

    fn width(width: &Self, place: &str) -> Result<u32, LoadError> {
        let width = width.constant().and_then(Number::to_u64);
        let width = width.and_then(|width| u32::try_from(width).ok());
        let width = width.filter(|width| (1..=MAX_BITS / 2).contains(width));
        width.ok_or_else(|| unsupported(place, "a cast to such a width"))
    }
}
