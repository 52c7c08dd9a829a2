//! The secret that stands for the right to act for a job.

use std::fmt;

use subtle::ConstantTimeEq;

const BYTES: usize = 32;

/// 256 random bits.
#[derive(Clone)]
pub(crate) struct Token([u8; BYTES]);

impl Token {
    /// A new one from the operating system's generator, seeded into the thread's.
    pub(crate) fn random() -> Self {
        Self(rand::random())
    }

    /// One that was written down.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Whether `shown` is this token. Takes as long for a near miss as for a far one, so that nobody
    /// can find it byte by byte.
    pub(crate) fn matches(&self, shown: &[u8]) -> bool {
        self.0.as_slice().ct_eq(shown).into()
    }

    /// Its bytes, for the one who creates the job.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Not its bytes: they would end in a log.
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
