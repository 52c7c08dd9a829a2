//! The secret that the members of a job share and that switches do not have.

use std::fmt;

/// The secret of a job: random bytes that its members share.
/// The [tags](crate::Tag) of its packets are derived from it. Without these bytes, an attacker cannot change a sum
/// undetected.
#[derive(Clone, PartialEq, Eq)]
pub struct JobSecret([u8; Self::BYTES]);

impl JobSecret {
    /// The length of a secret in bytes.
    pub const BYTES: usize = 32;

    /// Makes a secret of these bytes. They must be impossible to guess.
    pub fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for sending them to members, storing them, or deriving keys.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// Hides the bytes, because they would appear in logs.
impl fmt::Debug for JobSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobSecret(…)")
    }
}
