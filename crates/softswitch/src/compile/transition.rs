//! Transitions of a parser state: the key, and the cases with which it is compared.

use super::fault::{malformed, unsupported};
use super::resolve::Scope;
use super::term::{Binary, Term};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::json::{ParseState, Transition};
use crate::program::MAX_BITS;

/// Keys of up to this number of bytes are compared as one number.
const NARROW_KEY_BYTES: u32 = 8;

/// The key of a state: its fields, each padded to bytes.
pub(super) struct TransitionKey {
    /// The number of bytes of all parts.
    bytes: u32,
    parts: Vec<KeyPart>,
}

/// A part of a key.
struct KeyPart {
    value: Term,
    bytes: u32,
}

/// The condition under which a transition is taken.
pub(super) enum Case {
    Always,
    If(Term),
}

impl TransitionKey {
    /// Reads the key of a state.
    pub(super) fn new(state: &ParseState, scope: &Scope<'_>) -> Result<Self, LoadError> {
        let mut parts = Vec::new();
        for field in &state.transition_key {
            let value = Term::resolve(&Expr::read(field, scope.place)?, scope)?;
            let bits = value.bound.bits;
            if bits > MAX_BITS {
                let what = format!("a part of a transition key of more than {MAX_BITS} bits");
                return Err(unsupported(scope.place, what));
            }
            // A signed field is compared in its wire representation.
            let value = match value.bound.signed {
                true => Term::binary(Binary::And, value, Term::number(Number::mask(bits))),
                false => value,
            };
            parts.push(KeyPart { value, bytes: bits.div_ceil(8).max(1) });
        }
        let bytes = parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.bytes));
        if bytes > NARROW_KEY_BYTES {
            return Ok(Self { bytes, parts });
        }
        let together = parts.into_iter().reduce(|key, part| {
            let by = Term::number(Number::from(u64::from(part.bytes) * 8));
            let shifted = Term::binary(Binary::Shl, key.value, by);
            KeyPart { value: Term::binary(Binary::Or, shifted, part.value), bytes: key.bytes + part.bytes }
        });
        Ok(Self { bytes, parts: together.into_iter().collect() })
    }

    /// Returns the key as one number, if it is narrow enough for that.
    pub(super) fn narrow(&self) -> Option<&Term> {
        match self.parts.as_slice() {
            [part] if part.bytes <= NARROW_KEY_BYTES => Some(&part.value),
            _ => None,
        }
    }

    /// Returns the key as one number, and its width in bits; `None` if the key is empty or too
    /// wide.
    pub(super) fn whole(&self) -> Option<(Term, u32)> {
        let bits = self.bytes.checked_mul(8).filter(|bits| *bits <= MAX_BITS)?;
        let mut parts = self.parts.iter();
        let first = parts.next()?.value.clone();
        let key = parts.fold(first, |key, part| {
            let by = Term::number(Number::from(u64::from(part.bytes) * 8));
            Term::binary(Binary::Or, Term::binary(Binary::Shl, key, by), part.value.clone())
        });
        Some((key, bits))
    }

    /// Returns the condition of a transition.
    pub(super) fn case(&self, case: &Transition, scope: &Scope<'_>) -> Result<Case, LoadError> {
        let place = scope.place;
        let default = case.value.as_deref() == Some("default");
        match case.kind.as_deref() {
            Some("default") => return Ok(Case::Always),
            None if default => return Ok(Case::Always),
            None | Some("hexstr") => {}
            Some(kind) => return Err(unsupported(place, format!("a transition of type '{kind}'"))),
        }
        let number = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default();
            let number = Number::parse(text)
                .filter(|number| !number.is_negative() && number.bits() <= self.bytes.saturating_mul(8));
            number.ok_or_else(|| malformed(place, format!("'{text}' is not a value of the transition key")))
        };
        let value = number(&case.value)?;
        let mask = case.mask.is_some().then(|| number(&case.mask)).transpose()?;
        let mut low = self.bytes.saturating_mul(8);
        let conditions = self.parts.iter().filter_map(|part| {
            let bits = part.bytes.saturating_mul(8);
            low -= bits;
            compare(part, &value.slice(low, bits), mask.as_ref().map(|mask| mask.slice(low, bits)))
        });
        match conditions.reduce(Term::both) {
            Some(condition) => Ok(Case::If(condition)),
            None if self.parts.is_empty() => {
                Err(malformed(place, "a transition compares a key that is empty"))
            }
            // The mask selects no bits, so the case always applies.
            None => Ok(Case::Always),
        }
    }
}

/// Returns the condition that a part of the key has a value; `None` if every value matches.
fn compare(part: &KeyPart, value: &Number, mask: Option<Number>) -> Option<Term> {
    let Some(mask) = mask else {
        return Some(Term::equal(part.value.clone(), Term::number(value.clone())));
    };
    if mask == Number::default() {
        return None;
    }
    let masked = Term::number(value.and(&mask));
    Some(Term::equal(Term::binary(Binary::And, part.value.clone(), Term::number(mask)), masked))
}
