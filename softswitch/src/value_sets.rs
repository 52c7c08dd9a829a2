//! Value sets: values that the control plane gives and that parsers compare their keys with.
//!
//! A parser's key is one number, each of its fields padded to bytes, the last one lowest. A set's member has a test for
//! each field.

use crate::control::KeyMatch;
use crate::program::Pattern;
use crate::program::{KeyField, KeySource, MatchKind};

/// A value set, as the program declares it.
#[derive(Debug, Clone)]
pub(crate) struct ValueSetProgram {
    /// Its name in the P4Info.
    pub(crate) name: String,
    /// The most members.
    pub(crate) size: usize,
    /// The fields of a member, which the P4Info tells; each has a word of its own.
    pub(crate) fields: Vec<KeyField>,
}

/// A value set's members.
#[derive(Debug, Default)]
pub(crate) struct ValueSet {
    members: Vec<Pattern>,
    /// For each field the bits behind it in the key, and a mask of its width.
    places: Vec<(u32, u64)>,
    ranges: Vec<bool>,
}

impl ValueSetProgram {
    /// A field of a member: its name, width and kind.
    pub(crate) fn add_field(&mut self, name: String, bits: u32, kind: MatchKind) {
        let word = self.fields.len();
        // Values come from the parser's key, and from no field of the packet.
        self.fields.push(KeyField { name, kind, bits, source: KeySource::Word(0), word, shift: 0 });
    }

    /// A member's pattern.
    ///
    /// # Errors
    /// The text says what is wrong with which field.
    pub(crate) fn pattern(&self, matches: &[Option<&KeyMatch>]) -> Result<Pattern, String> {
        Pattern::new(&self.fields, self.fields.len(), matches, 0)
    }
}

impl ValueSet {
    /// An empty set.
    pub(crate) fn new(program: &ValueSetProgram) -> Self {
        let mut behind = 0;
        let place = |field: &KeyField| {
            let shift = behind;
            behind += field.bits.next_multiple_of(8);
            (shift, u64::MAX >> (64 - field.bits.min(64)))
        };
        let mut places: Vec<_> = program.fields.iter().rev().map(place).collect();
        places.reverse();
        let ranges = program.fields.iter().map(|field| field.kind == MatchKind::Range).collect();
        Self { members: Vec::new(), places, ranges }
    }

    /// Whether a member matches the parser's key.
    pub(crate) fn contains(&self, key: u64) -> bool {
        let matches = |member: &Pattern| {
            let tests = self.places.iter().zip(&self.ranges).zip(member.value.iter().zip(&member.mask));
            let mut tests = tests.map(|(((shift, ones), range), (value, mask))| {
                let field = key.checked_shr(*shift).unwrap_or(0) & ones;
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!set.contains(0));
        set.set_members(vec![member(3, (5, 7)), member(4, (0, 0))]);
        let key = |a: u64, b: u64, c: u64| a << 32 | b << 16 | c;
        assert!(set.contains(key(3, 0x1234, 6)) && set.contains(key(4, 0x1200, 0)));
        for missed in [key(3, 0x1234, 8), key(3, 0x1334, 6), key(4, 0x1234, 6), key(0x13, 0x1234, 4)] {
            assert!(!set.contains(missed), "{missed:#x}");
        }
    }
}
