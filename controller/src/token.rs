//! The secret that authorizes its holder to act for a job.

use std::fmt;

use subtle::ConstantTimeEq;

const BYTES: usize = 32;

/// 256 random bits.
#[derive(Clone)]
pub(crate) struct Token([u8; BYTES]);

impl Token {
    /// A new token from the thread's generator, which the operating system's generator seeds.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    /// A token that was written down; `None` if it has another length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns true if `shown` is this token.
    ///
    /// The comparison takes the same time wherever the two differ, so that an attacker cannot find the token byte by
    /// byte.
    pub(crate) fn matches(&self, shown: &[u8]) -> bool {
        self.0.as_slice().ct_eq(shown).into()
    }

    /// Its bytes, for the job's creator.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Hides the bytes, which would otherwise end up in a log.
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
