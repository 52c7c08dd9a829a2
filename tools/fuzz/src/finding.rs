//! Inputs that reveal an error.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{fs, io};

use sha2::{Digest, Sha256};

use crate::Target;

/// An input on which a target panics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The target's name.
    pub target: &'static str,
    /// The panic's message.
    pub reason: String,
    /// The input.
    pub input: Vec<u8>,
}

/// Runs a target on one input.
///
/// # Errors
/// The error that the input reveals.
pub fn check(target: &Target, input: &[u8]) -> Result<(), Finding> {
    catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| Finding {
        target: target.name,
        reason: said(&*panic),
        input: input.to_vec(),
    })
}

impl Finding {
    /// Writes the input to a file in `folder`, and returns its path.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn save(&self, folder: &Path) -> io::Result<String> {
        fs::create_dir_all(folder)?;
        let file = folder.join(format!("{}-{}", self.target, name_of(&self.input)));
        fs::write(&file, &self.input)?;
        Ok(file.display().to_string())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (an input of {} bytes)", self.target, self.reason, self.input.len())
    }
}

/// Returns a file name that is derived from the contents, so that an input found twice is stored once.
fn name_of(input: &[u8]) -> String {
    Sha256::digest(input).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}

/// Returns the value of an outcome that must be `Ok`. An error is a finding.
#[track_caller]
pub(crate) fn sound<T, E: fmt::Debug>(outcome: Result<T, E>) -> T {
    match outcome {
        Ok(outcome) => outcome,
        #[expect(clippy::panic, reason = "a target says so what it has found")]
        Err(problem) => panic!("{problem:?}"),
    }
}
