//! Expressions with their names resolved and their ranges known.
//!
//! BMv2 computes with unlimited precision, and p4c masks what has to wrap around. [`ValueRange`] says how many bits a value
//! can have, so that it is computed in the fewest bits that give the same result.

use super::fault::{malformed, unsupported};
use super::layout::{Layout, Slot, Storage};
use super::reference::{self, HeaderRef, UnionRef};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::program::{MAX_BITS, Word};

/// The range of a value: 0..2^bits, or -2^(bits-1)..2^(bits-1) when signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ValueRange {
    pub(super) bits: u32,
    pub(super) signed: bool,
}

/// A value may have any number of bits: it has to be masked before it can be used.
pub(super) const UNBOUNDED: u32 = u32::MAX;

impl ValueRange {
    const BIT: Self = Self::unsigned(1);

    const fn unsigned(bits: u32) -> Self {
        Self { bits, signed: false }
    }

    const fn signed(bits: u32) -> Self {
        Self { bits, signed: true }
    }

    /// Bits of the value as a two's complement.
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

/// Resolves names at some place of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) layout: &'a Layout,
    /// The parameters of the action.
    pub(super) locals: &'a [Slot],
    /// The place in the program, for messages.
    pub(super) place: &'a str,
    /// True if the place is in the parser; only parsers can look ahead in a packet.
    pub(super) in_parser: bool,
}

impl Term {
    /// A constant.
    pub(super) fn number(number: Number) -> Self {
        let bits = number.bits();
        let bound = if number.is_negative() {
            ValueRange::signed(bits.saturating_add(1))
        } else {
            ValueRange::unsigned(bits)
        };
        Self { kind: Kind::Const(number), bound }
    }

    /// A field. One with a sign is kept as a two's complement of its width.
    pub(super) fn slot(slot: Slot) -> Self {
        let bits = Self { kind: Kind::Field(slot.place), bound: ValueRange::unsigned(slot.bits) };
        if !slot.signed {
            return bits;
        }
        let half = || Self::number(Number::power(slot.bits - 1));
        let value = Self::binary(Binary::Sub, Self::binary(Binary::Xor, bits, half()), half());
        Self { bound: ValueRange::signed(slot.bits), ..value }
    }

    /// The term at a position that is known at run time only; 0 behind the last one.
    pub(super) fn at(index: &Self, terms: Vec<Self>) -> Self {
        let nothing = Self::number(Number::default());
        terms.into_iter().enumerate().rev().fold(nothing, |others, (position, term)| {
            let position = Self::number(Number::from(position as u64));
            Self::choose(Self::equal(index.clone(), position), term, others)
        })
    }

    /// Its value if it is a constant.
    pub(super) fn constant(&self) -> Option<&Number> {
        match &self.kind {
            Kind::Const(number) => Some(number),
            _ => None,
        }
    }

    fn truth(kind: Kind) -> Self {
        Self { kind, bound: ValueRange::BIT }
    }

    fn not(self) -> Self {
        Self::truth(Kind::Not(Box::new(self)))
    }

    fn compare(compare: Compare, left: Self, right: Self) -> Self {
        Self::truth(Kind::Compare(compare, Box::new(left), Box::new(right)))
    }

    /// A test whether two terms are equal.
    pub(super) fn equal(left: Self, right: Self) -> Self {
        Self::compare(Compare::Equal, left, right)
    }

    /// Returns a condition that holds if both conditions hold.
    pub(super) fn both(left: Self, right: Self) -> Self {
        Self::truth(Kind::Both(Box::new(left), Box::new(right)))
    }

    fn choose(cond: Self, yes: Self, no: Self) -> Self {
        let bound = yes.bound.join(no.bound);
        Self { kind: Kind::Choose(Box::new(cond), Box::new(yes), Box::new(no)), bound }
    }

    /// An operation on two terms.
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

    /// Resolves the names of an expression.
    pub(super) fn resolve(expr: &Expr, scope: &Scope<'_>) -> Result<Self, LoadError> {
        let place = scope.place;
        match expr {
            Expr::Const(number) => Ok(Self::number(number.clone())),
            Expr::Bool(value) => Ok(Self::number(Number::from(u64::from(*value)))),
            Expr::Field(header, field) => Ok(Self::slot(scope.layout.field(header, field, place)?)),
            Expr::StackField(stack, field) => {
                let stack = scope.layout.stack(stack, place)?;
                let mut headers = scope.layout.stack_headers(stack);
                let first = scope.layout.field_of(headers.start, field, place)?;
                if let Slot { place: Storage::Word(first), bits, signed: false, .. } = first {
                    let kind = Kind::Last { first, stack };
                    return Ok(Self { kind, bound: ValueRange::unsigned(bits) });
                }
                let fields = headers.try_fold(Vec::new(), |mut fields, header| {
                    fields.push(Self::slot(scope.layout.field_of(header, field, place)?));
                    Ok::<_, LoadError>(fields)
                })?;
                Ok(Self::at(&Self::last_of(scope.layout.stack_list[usize::from(stack)].count), fields))
            }
            Expr::UnionStackField(stack, member, field) => {
                let stack = scope.layout.union_stack(stack, place)?;
                let member = stack.member(member, place)?;
                let fields = stack.unions.iter().map(|union| {
                    Ok::<_, LoadError>(Self::slot(scope.layout.field_of(union[member], field, place)?))
                });
                Ok(Self::at(&Self::last_of(stack.count), fields.collect::<Result<_, _>>()?))
            }
            Expr::Local(index) => {
                let slot = scope.locals.get(*index);
                let slot = slot.ok_or_else(|| malformed(place, format!("there is no parameter {index}")))?;
                Ok(Self::slot(*slot))
            }
            Expr::Lookahead(offset, bits) => {
                if !scope.in_parser || !(1..=MAX_BITS / 2).contains(bits) {
                    return Err(unsupported(place, format!("a lookahead of {bits} bits")));
                }
                let offset = u16::try_from(*offset)
                    .map_err(|_| unsupported(place, format!("a lookahead of {offset} bits")))?;
                let kind = Kind::Lookahead { offset, bits: *bits };
                Ok(Self { kind, bound: ValueRange::unsigned(*bits) })
            }
            Expr::Object(kind, name) => Err(malformed(place, format!("the {kind} {name} is not a value"))),
            Expr::UnionStack(stack, _) => {
                Err(malformed(place, format!("the header union stack {stack} is not a value")))
            }
            Expr::List(_) => Err(malformed(place, "a list is not a value")),
            Expr::Op { op, cond, left, right } => {
                Self::resolve_operation(op, cond.as_deref(), left.as_deref(), right, scope)
            }
        }
    }

    fn resolve_operation(
        op: &str,
        cond: Option<&Expr>,
        left: Option<&Expr>,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Self, LoadError> {
        if let Some(term) = Self::resolve_special(op, left, right, scope)? {
            return Ok(term);
        }
        let right = Self::resolve(right, scope)?;
        let missing = || malformed(scope.place, format!("'{op}' has one operand too few"));
        let operand = |expr: Option<&Expr>| expr.ok_or_else(missing).and_then(|e| Self::resolve(e, scope));
        let compare = |compare, swap: bool, not: bool| {
            let left = operand(left)?;
            let (a, b) = if swap { (right.clone(), left) } else { (left, right.clone()) };
            let term = Self::compare(compare, a, b);
            Ok(if not { term.not() } else { term })
        };
        let binary = |op| Ok(Self::binary(op, operand(left)?, right.clone()));
        match op {
            "+" if left.is_none() => Ok(right),
            "-" if left.is_none() => Ok(Self::binary(Binary::Sub, Self::number(Number::default()), right)),
            "+" => binary(Binary::Add),
            "-" => binary(Binary::Sub),
            "*" => binary(Binary::Mul),
            "&" => binary(Binary::And),
            "|" => binary(Binary::Or),
            "^" => binary(Binary::Xor),
            "<<" => binary(Binary::Shl),
            ">>" => binary(Binary::Shr),
            // As with infinite two's complements: -a - 1.
            "~" => Ok(Self::binary(Binary::Xor, right, Self::number(Number::from(1).negated()))),
            "==" => compare(Compare::Equal, false, false),
            "!=" => compare(Compare::Equal, false, true),
            "<" => compare(Compare::Less, false, false),
            ">" => compare(Compare::Less, true, false),
            "<=" => compare(Compare::Less, true, true),
            ">=" => compare(Compare::Less, false, true),
            "and" => Ok(Self::truth(Kind::Both(Box::new(operand(left)?), Box::new(right)))),
            "or" => Ok(Self::truth(Kind::Either(Box::new(operand(left)?), Box::new(right)))),
            "not" => Ok(right.not()),
            "d2b" if right.bound == ValueRange::BIT => Ok(right),
            "d2b" => Ok(Self::compare(Compare::Equal, right, Self::number(Number::default())).not()),
            "b2d" => Ok(right),
            "?" => Ok(Self::choose(operand(cond)?, operand(left)?, right)),
            "two_comp_mod" => Self::wrapped(operand(left)?, &right, scope.place),
            "usat_cast" | "sat_cast" => Self::saturated(op, operand(left)?, &right, scope.place),
            _ => Err(unsupported(scope.place, format!("the operation '{op}'"))),
        }
    }

    /// Resolves operations whose operand is a header, a union or a stack.
    fn resolve_special(
        op: &str,
        left: Option<&Expr>,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Option<Self>, LoadError> {
        let name = || match right {
            Expr::Object(_, name) => Ok(name.as_str()),
            _ => Err(malformed(scope.place, format!("'{op}' needs a name"))),
        };
        let count = || {
            let stack = scope.layout.stack(name()?, scope.place)?;
            let count = scope.layout.stack_list[usize::from(stack)].count;
            Ok::<_, LoadError>(Self::slot(Slot::word(count, 16)))
        };
        let valid = |header: &u16| Self::slot(scope.layout.validity(*header));
        Ok(match op {
            "valid" => Some(match reference::header(right, scope)? {
                HeaderRef::One(header) => valid(&header),
                HeaderRef::OneOf(index, headers) => Self::at(&index, headers.iter().map(valid).collect()),
            }),
            "valid_union" => {
                let any = |members: &[u16]| {
                    let members = members.iter().map(valid);
                    members
                        .reduce(|a, b| Self::truth(Kind::Either(Box::new(a), Box::new(b))))
                        .unwrap_or_else(|| Self::number(Number::default()))
                };
                Some(match reference::union(right, scope)? {
                    UnionRef::One(members) => any(&members),
                    UnionRef::OneOf(index, unions) => {
                        Self::at(&index, unions.iter().map(|members| any(members)).collect())
                    }
                })
            }
            "access_field" => {
                let fields = reference::fields(left, right, scope)?;
                Some(match fields {
                    reference::FieldRef::One(slot) => Self::slot(slot),
                    reference::FieldRef::OneOf(index, slots) => {
                        Self::at(&index, slots.into_iter().map(Self::slot).collect())
                    }
                })
            }
            "size_stack" => Some(count()?),
            "last_stack_index" => Some(Self::binary(Binary::Sub, count()?, Self::number(Number::from(1)))),
            _ => None,
        })
    }

    /// Returns the position of the last of `count` elements.
    pub(super) fn last_of(count: Word) -> Self {
        Self::binary(Binary::Sub, Self::slot(Slot::word(count, 16)), Self::number(Number::from(1)))
    }

    /// A wide value that may be negative, shifted to the right: of a negative x this is ~(~x >> by).
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

    /// A value modulo 2^`width`, as a two's complement.
    fn wrapped(value: Self, width: &Self, place: &str) -> Result<Self, LoadError> {
        let width = Self::width(width, place)?;
        let half = || Self::number(Number::power(width - 1));
        let shifted = Self::binary(Binary::Add, value, half());
        let kept = Self::binary(Binary::And, shifted, Self::number(Number::mask(width)));
        let wrapped = Self::binary(Binary::Sub, kept, half());
        Ok(Self { bound: ValueRange::signed(width), ..wrapped })
    }

    /// A value, clamped to the range of `width` bits.
    fn saturated(op: &str, value: Self, width: &Self, place: &str) -> Result<Self, LoadError> {
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
