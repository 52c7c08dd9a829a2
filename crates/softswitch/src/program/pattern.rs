//! Converts between the control plane's match fields and patterns, with which the keys of packets
//! are compared.

use super::key::{KeyField, MatchKind};
use crate::control::KeyMatch;
use crate::json::number::Number;

/// The keys that an entry matches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    /// The value to compare with; for a range, the lowest value.
    pub(crate) value: Vec<u64>,
    /// The bits to compare; for a range, the highest value.
    pub(crate) mask: Vec<u64>,
    /// The priority; the larger number wins.
    pub(crate) priority: i32,
}

impl Pattern {
    /// Builds a pattern for a key of `words` words from the match of each field; `None` matches
    /// every value.
    ///
    /// # Errors
    /// The text names the field and the fault.
    pub(crate) fn new(
        key: &[KeyField],
        words: usize,
        matches: &[Option<&KeyMatch>],
        priority: i32,
    ) -> Result<Self, String> {
        let mut pattern = Self { value: vec![0; words], mask: vec![0; words], priority };
        for (field, matched) in key.iter().zip(matches) {
            let (value, mask) =
                bounds(field, *matched).map_err(|problem| format!("field {} {problem}", field.name))?;
            put(&mut pattern.value, field, &value);
            put(&mut pattern.mask, field, &mask);
        }
        Ok(pattern)
    }

    /// Returns the match of each field; `None` if the field matches every value.
    pub(crate) fn matches(&self, key: &[KeyField]) -> Vec<Option<KeyMatch>> {
        key.iter().map(|field| self.field(field)).collect()
    }

    fn field(&self, field: &KeyField) -> Option<KeyMatch> {
        let (value, mask) = (take(&self.value, field), take(&self.mask, field));
        let shown = |value| field.translation.encode(value);
        let anything = match field.kind {
            MatchKind::Exact => false,
            MatchKind::Range => value == [0] && mask == canonical_bytes(&ones(field.bits)),
            _ => mask == [0],
        };
        if anything {
            return None;
        }
        Some(match field.kind {
            MatchKind::Exact => KeyMatch::Exact(shown(value)),
            MatchKind::Optional => KeyMatch::Optional(shown(value)),
            MatchKind::Ternary => KeyMatch::Ternary { value, mask },
            MatchKind::Range => KeyMatch::Range { low: value, high: mask },
            MatchKind::Lpm => {
                KeyMatch::Lpm { value, prefix_len: mask.iter().map(|byte| byte.count_ones()).sum() }
            }
        })
    }
}

/// Returns the value and mask of one field, or the ends of its range, as limbs.
fn bounds(field: &KeyField, matched: Option<&KeyMatch>) -> Result<(Vec<u64>, Vec<u64>), String> {
    let all = || ones(field.bits);
    let number = |bytes: &Vec<u8>| {
        let bytes = field.translation.decode(bytes, field.bits);
        let mut limbs = limbs(&bytes.map_err(|problem| format!("has a bad value: {problem}"))?);
        limbs.resize(field.bits.div_ceil(64) as usize, 0);
        Ok::<_, String>(limbs)
    };
    match (matched, field.kind) {
        (None, MatchKind::Exact) => Err("is missing: it has to match exactly".to_owned()),
        (None, MatchKind::Range) => Ok((vec![0], all())),
        (None, _) => Ok((vec![0], vec![0])),
        (Some(KeyMatch::Exact(value)), MatchKind::Exact)
        | (Some(KeyMatch::Optional(value)), MatchKind::Optional) => Ok((number(value)?, all())),
        (Some(KeyMatch::Lpm { value, prefix_len }), MatchKind::Lpm) => {
            if !(1..=field.bits).contains(prefix_len) {
                return Err(format!("has a prefix of {prefix_len} of {} bits", field.bits));
            }
            let behind = Number::mask(field.bits - prefix_len);
            let mask = all().into_iter().enumerate().map(|(i, limb)| limb & !behind.limb(i)).collect();
            within(number(value)?, mask, "behind its prefix")
        }
        (Some(KeyMatch::Ternary { value, mask }), MatchKind::Ternary) => {
            let mask = number(mask)?;
            if mask.iter().all(|limb| *limb == 0) {
                return Err("has an empty mask: leave it out to match anything".to_owned());
            }
            within(number(value)?, mask, "where its mask has none")
        }
        (Some(KeyMatch::Range { low, high }), MatchKind::Range) => {
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err("has a range whose low end is above the high one".to_owned());
            }
            if low == [0] && high == all() {
                return Err("has a range of everything: leave it out to match anything".to_owned());
            }
            Ok((low, high))
        }
        (Some(_), kind) => Err(format!("is of another kind: it matches by {kind:?}")),
    }
}

fn within(value: Vec<u64>, mask: Vec<u64>, outside: &str) -> Result<(Vec<u64>, Vec<u64>), String> {
    if value.iter().zip(&mask).any(|(value, mask)| value & !mask != 0) {
        return Err(format!("has bits set {outside}"));
    }
    Ok((value, mask))
}

/// Returns a number of `bits` ones, as limbs.
fn ones(bits: u32) -> Vec<u64> {
    let mask = Number::mask(bits);
    (0..bits.div_ceil(64) as usize).map(|index| mask.limb(index)).collect()
}

fn put(words: &mut [u64], field: &KeyField, limbs: &[u64]) {
    for (word, limb) in words[field.word..].iter_mut().zip(limbs) {
        *word |= limb << field.shift;
    }
}

/// Extracts a field's part of a pattern, as a canonical byte string.
fn take(words: &[u64], field: &KeyField) -> Vec<u8> {
    let ones = ones(field.bits);
    let limbs: Vec<u64> =
        words[field.word..].iter().zip(ones).map(|(word, ones)| word >> field.shift & ones).collect();
    canonical_bytes(&limbs)
}

/// Converts limbs to a canonical byte string.
fn canonical_bytes(limbs: &[u64]) -> Vec<u8> {
    let bytes: Vec<u8> = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(bytes.len().saturating_sub(1));
    bytes[zeros..].to_vec()
}

/// Converts a big-endian byte string to limbs, the lowest first.
pub(crate) fn limbs(bytes: &[u8]) -> Vec<u64> {
    let limb = |chunk: &[u8]| chunk.iter().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
    bytes.rchunks(8).map(limb).collect()
}
