//! The secret that authorizes its holder to act for a job.

use std::fmt;

use subtle::ConstantTimeEq;

const BYTES: usize = 32;

/// A token of 256 random bits.
#[derive(Clone)]
pub(crate) struct Token([u8; BYTES]);

impl Token {
    /// Creates a token with the thread's random generator, which is seeded by the operating system.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    /// Creates a token from stored bytes; `None` if their number is wrong.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns true if `shown` is this token.
    ///
    /// The comparison always takes the same time. An attacker can therefore not find the token byte by byte.
    pub(crate) fn matches(&self, shown: &[u8]) -> bool {
        self.0.as_slice().ct_eq(shown).into()
    }

    /// Returns the bytes of the token, for the job's creator.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Omits the bytes, which would otherwise appear in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_matches_itself_alone() {
        let token = Token::random();
        assert!(token.matches(&token.to_bytes()));
        assert!(!token.matches(&Token::random().to_bytes()));
        assert!(!token.matches(&[]));
        assert!(!token.matches(&token.to_bytes()[..BYTES - 1]));
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
