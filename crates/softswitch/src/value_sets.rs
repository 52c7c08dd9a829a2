//! Value sets: values from the control plane, with which parsers compare their keys.
//!
//! A parser's key is one number. Each of its fields is padded to bytes, and the last field is the
//! lowest. A member of a set has a test for each field.

use crate::program::{MatchKind, Pattern, ValueSetProgram};

/// A value set's members.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueSet {
    members: Vec<Pattern>,
    /// The position of each word of a member in the key.
    positions: Vec<WordPosition>,
}

/// The position of one word of a member in the key.
#[derive(Debug, Clone)]
struct WordPosition {
    /// Number of bits behind the word.
    shift: u32,
    /// A mask of the word's width.
    ones: u64,
    /// True if the member has the lowest and the highest value of a range.
    range: bool,
}

impl ValueSet {
    /// Creates an empty set.
    pub(crate) fn new(program: &ValueSetProgram) -> Self {
        let mut behind: u32 = program.fields.iter().map(|field| field.bits.next_multiple_of(8)).sum();
        let positions = program.fields.iter().flat_map(|field| {
            behind -= field.bits.next_multiple_of(8);
            let (from, range) = (behind, field.kind == MatchKind::Range);
            (0..field.bits.div_ceil(64)).map(move |word| {
                let bits = (field.bits - 64 * word).min(64);
                WordPosition { shift: from + 64 * word, ones: u64::MAX >> (64 - bits), range }
            })
        });
        Self { members: Vec::new(), positions: positions.collect() }
    }

    /// Returns true if a member matches the parser's key, the lowest word first.
    pub(crate) fn contains(&self, key: &[u64]) -> bool {
        let matches = |member: &Pattern| {
            let tests = self.positions.iter().zip(member.value.iter().zip(&member.mask));
            let mut tests = tests.map(|(WordPosition { shift, ones, range }, (value, mask))| {
                let field = bits_from(key, *shift) & ones;
                if *range { (*value..=*mask).contains(&field) } else { field & mask == *value }
            });
            tests.all(|matches| matches)
        };
        self.members.iter().any(matches)
    }

    pub(crate) fn members(&self) -> &[Pattern] {
        &self.members
    }

    pub(crate) fn set_members(&mut self, members: Vec<Pattern>) {
        self.members = members;
    }
}

/// Returns 64 bits of a key; `shift` bits lie behind the lowest of them.
fn bits_from(key: &[u64], shift: u32) -> u64 {
    let word = |index: u32| key.get(index as usize).copied().unwrap_or(0);
    let (at, by) = (shift / 64, shift % 64);
    word(at) >> by | word(at + 1).checked_shl(64 - by).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::KeyMatch;

    #[test]
    fn fields_are_padded_to_bytes() {
        let mut program = ValueSetProgram { name: "s".to_owned(), size: 4, fields: Vec::new() };
        program.add_field("a".to_owned(), 4, MatchKind::Exact);
        program.add_field("b".to_owned(), 16, MatchKind::Ternary);
        program.add_field("c".to_owned(), 9, MatchKind::Range);
        let member = |a: u8, c: (u8, u8)| {
            let a = KeyMatch::Exact(vec![a]);
            let b = KeyMatch::Ternary { value: vec![0x12, 0], mask: vec![0xff, 0] };
            let c = KeyMatch::Range { low: vec![c.0], high: vec![c.1] };
            program.pattern(&[Some(&a), Some(&b), Some(&c)]).unwrap()
        };
        let mut set = ValueSet::new(&program);
        assert!(!set.contains(&[0]));
        set.set_members(vec![member(3, (5, 7)), member(4, (0, 0))]);
        let key = |a: u64, b: u64, c: u64| [a << 32 | b << 16 | c];
        assert!(set.contains(&key(3, 0x1234, 6)) && set.contains(&key(4, 0x1200, 0)));
        for missed in [key(3, 0x1234, 8), key(3, 0x1334, 6), key(4, 0x1234, 6), key(0x13, 0x1234, 4)] {
            assert!(!set.contains(&missed), "{missed:x?}");
        }
    }

    #[test]
    fn fields_go_over_the_ends_of_words() {
        let mut program = ValueSetProgram { name: "s".to_owned(), size: 4, fields: Vec::new() };
        program.add_field("a".to_owned(), 100, MatchKind::Exact);
        program.add_field("b".to_owned(), 48, MatchKind::Ternary);
        let a: Vec<u8> = (1..=13).collect();
        let exact = KeyMatch::Exact(a.clone());
        let ternary = KeyMatch::Ternary { value: vec![0xab, 0, 0], mask: vec![0xff, 0, 0] };
        let mut set = ValueSet::new(&program);
        set.set_members(vec![program.pattern(&[Some(&exact), Some(&ternary)]).unwrap()]);
        let key = |b: u64| {
            let a = a.iter().fold(0_u128, |a, byte| a << 8 | u128::from(*byte));
            [b | (a as u64) << 48, (a >> 16) as u64, (a >> 80) as u64]
        };
        assert!(set.contains(&key(0x1234_56ab_9876)));
        assert!(!set.contains(&key(0xac_1234)));
        let [low, middle, high] = key(0xab_0000);
        for missed in [[low ^ 1 << 48, middle, high], [low, middle ^ 1 << 63, high], [low, middle, high ^ 1]]
        {
            assert!(!set.contains(&missed), "{missed:x?}");
        }
    }
}
