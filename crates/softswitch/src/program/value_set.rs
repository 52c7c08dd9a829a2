//! Value sets of the parser, as the program declares them.

use super::key::{KeyField, KeySource, MatchKind};
use super::pattern::Pattern;
use crate::control::KeyMatch;
use crate::translation::Translation;

/// A value set, as the program declares it.
#[derive(Debug, Clone)]
pub(crate) struct ValueSetProgram {
    /// The value set's name in the P4Info.
    pub(crate) name: String,
    /// The maximum number of members.
    pub(crate) size: usize,
    /// The fields of a member, from the P4Info. Each field begins at a new word.
    pub(crate) fields: Vec<KeyField>,
}

impl ValueSetProgram {
    /// Adds a field to the members.
    pub(crate) fn add_field(&mut self, name: String, bits: u32, kind: MatchKind) {
        let word = self.words();
        // The values come from the parser's key, not from a field of the packet.
        let (source, translation) = (KeySource::Word(0), Translation::None);
        self.fields.push(KeyField { name, kind, bits, translation, source, word, shift: 0 });
    }

    /// Returns the number of words of a member.
    fn words(&self) -> usize {
        self.fields.last().map_or(0, |last| last.word + last.bits.div_ceil(64) as usize)
    }

    /// Returns a member's pattern.
    ///
    /// # Errors
    /// The text names the field and the fault.
    pub(crate) fn pattern(&self, matches: &[Option<&KeyMatch>]) -> Result<Pattern, String> {
        Pattern::new(&self.fields, self.words(), matches, 0)
    }
}
