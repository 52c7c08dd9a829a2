//! Names of the shared memory between a training process and the agent.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

const PREFIX: &str = "tributary-";
const DIGITS: usize = 32;

/// The name of a shared-memory segment.
///
/// The name has a fixed form and is not a path. A process can therefore not make an agent that runs as root open any
/// other file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentName(String);

/// The text is not the name of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bad segment name {0:?}: it must be \"{PREFIX}\" and {DIGITS} lower-case hexadecimal digits")]
pub struct SegmentNameError(String);

impl SegmentName {
    /// The folder of all segments: POSIX shared memory on Linux.
    pub const FOLDER: &str = "/dev/shm";

    /// Creates a name from 128 bits, which should be random.
    pub fn new(bits: u128) -> Self {
        Self(format!("{PREFIX}{bits:032x}"))
    }

    /// Returns the path of the segment's file.
    pub fn path(&self) -> PathBuf {
        Path::new(Self::FOLDER).join(&self.0)
    }
}

impl FromStr for SegmentName {
    type Err = SegmentNameError;

    fn from_str(name: &str) -> Result<Self, SegmentNameError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match name.strip_prefix(PREFIX) {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(is_digit) => Ok(Self(name.into())),
            // The error contains at most as many characters as a valid name has, because the text comes from outside.
            _ => Err(SegmentNameError(name.chars().take(PREFIX.len() + DIGITS).collect())),
        }
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_name_is_read_again(bits: u128) {
            let name = SegmentName::new(bits);
            prop_assert_eq!(name.to_string().parse::<SegmentName>(), Ok(name));
        }

        #[test]
        fn whatever_is_accepted_stays_in_its_folder(text in "(tributary-)?[0-9a-f./]{30,34}") {
            if let Ok(name) = text.parse::<SegmentName>() {
                let path = name.path();
                prop_assert_eq!(path.parent(), Some(Path::new(SegmentName::FOLDER)));
                prop_assert_eq!(path.file_name().and_then(|name| name.to_str()), Some(text.as_str()));
            }
        }
    }

    #[test]
    fn paths_are_refused() {
        for name in ["", "tributary-", "../../etc/passwd", "tributary-../../../../etc/passwd/0000000000"] {
            assert!(name.parse::<SegmentName>().is_err(), "{name}");
        }
    }
}
