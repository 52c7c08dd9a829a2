//! What a job's members know, and switches do not.

use std::fmt;

/// A job's secret: random bytes that its members have in common, and that the [tags](crate::Tag) of its packets are made from.
/// Whoever has not got them changes no sum unnoticed.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSecret([u8; Self::BYTES]);

impl JobSecret {
    /// Its length.
    pub const BYTES: usize = 32;

    /// These bytes, which nobody may be able to guess.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for whoever hands them to members, writes them down, or makes tags from them.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Not its bytes: they would end in a log.
impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(…)")
    }
}
