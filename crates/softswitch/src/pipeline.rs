//! A loaded program: compiled, and checked against its P4Info.

use std::fmt;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1 as message;

use crate::check::{self, Directory};
use crate::compile;
use crate::error::LoadError;
use crate::json::Document;
use crate::packet_log::PacketLog;
use crate::program::Program;

/// A compiled program. It is immutable, and shared by the switches and servers that use it.
pub struct Pipeline {
    info: P4Info,
    pub(crate) program: Program,
    pub(crate) directory: Directory,
    /// The packet log of the switches that run this program.
    pub(crate) log: Option<PacketLog>,
}

impl fmt::Debug for Pipeline {
    /// Formats only sizes, because a whole program fills many screens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        f.debug_struct("Pipeline")
            .field("instructions", &program.code.len())
            .field("headers", &program.headers.len())
            .field("tables", &program.tables.len())
            .finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Compiles a BMv2 JSON and checks that `p4info` describes the same program.
    ///
    /// # Errors
    /// [`LoadError`] names the malformed, unsupported or different part and its place.
    pub fn load(json: &str, p4info: message::P4Info) -> Result<Self, LoadError> {
        Self::load_to_log(json, p4info, None)
    }

    /// Loads a program like [`Pipeline::load`], for switches that log the steps of each packet.
    ///
    /// The log uses the names of the P4 source. With `None`, the switches log nothing.
    ///
    /// # Errors
    /// The errors of [`Pipeline::load`].
    pub fn load_to_log(
        json: &str,
        p4info: message::P4Info,
        log: Option<PacketLog>,
    ) -> Result<Self, LoadError> {
        Self::new(json, P4Info::new(p4info)?, log)
    }

    /// Loads a program with a P4Info in protobuf's text format, as p4c writes it to files.
    ///
    /// # Errors
    /// The errors of [`Pipeline::load`].
    pub fn load_text(json: &str, p4info: &str) -> Result<Self, LoadError> {
        Self::new(json, P4Info::parse(p4info)?, None)
    }

    fn new(json: &str, info: P4Info, log: Option<PacketLog>) -> Result<Self, LoadError> {
        let document = Document::read(json)?;
        let visible = info.tables().map(|table| table.name.full.as_str()).collect();
        let mut program = compile::compile(&document, &visible, log.is_some())?;
        let directory = check::check(&document, &mut program, &info)?;
        Ok(Self { info, program, directory, log })
    }

    /// Returns the P4Info with which the pipeline was loaded, as a message.
    pub fn p4info(&self) -> &message::P4Info {
        self.info.message()
    }

    /// Returns the P4Info with which the pipeline was loaded.
    pub fn info(&self) -> &P4Info {
        &self.info
    }
}
