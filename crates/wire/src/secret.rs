//! The secret that a job's members know, and switches do not.

use std::fmt;

/// A job's secret: random bytes that its members share, and from which the [tags](crate::Tag) of its
/// packets are made. Without these bytes, an attacker cannot change a sum undetected.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSecret([u8; Self::BYTES]);

impl JobSecret {
    /// Its length in bytes.
    pub const BYTES: usize = 32;

    /// Makes a secret of these bytes. The bytes must be impossible to guess.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for handing them to members, storing them, or making tags.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Does not show the bytes: they would end up in a log.
impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(…)")
    }
}
