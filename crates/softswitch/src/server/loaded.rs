//! A program that a switch has from the start, without a controller.
//!
//! The code that answers SetForwardingPipelineConfig and Write also loads this program and writes
//! its entries. So both refuse the same input with the same words. A controller that connects later
//! finds the same state as after its own writes.

use std::fmt;
use std::sync::Arc;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1 as config;
use tributary_p4runtime::p4::v1::{ForwardingPipelineConfig, Update};

use super::device::DeviceProgram;
use super::operation::Operation;
use super::status::Refusal;
use crate::packet_log::PacketLog;
use crate::switch::Switch;

/// A program, and the entries that were written before its switch started.
pub struct Loaded {
    program: Arc<DeviceProgram>,
    switch: Switch,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("pipeline", &self.program.pipeline).finish_non_exhaustive()
    }
}

impl Loaded {
    /// Loads the JSON that p4c made of a program, and checks that `p4info` describes the same program.
    ///
    /// # Errors
    /// The error that a controller would receive for such a program.
    pub fn new(json: Vec<u8>, p4info: config::P4Info) -> Result<Self, Refusal> {
        Self::to_log(json, p4info, None)
    }

    /// Loads a program like [`Loaded::new`], for a switch that logs the steps of its packets.
    ///
    /// # Errors
    /// The errors of [`Loaded::new`].
    pub fn to_log(json: Vec<u8>, p4info: config::P4Info, log: Option<PacketLog>) -> Result<Self, Refusal> {
        let config = ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config: json, cookie: None };
        let program = Arc::new(DeviceProgram::load(config, log)?);
        let switch = Switch::new(program.pipeline.clone());
        Ok(Self { program, switch })
    }

    /// Returns the program's objects by name.
    pub fn p4info(&self) -> &P4Info {
        self.program.p4info()
    }

    /// Carries out one update of a Write.
    ///
    /// # Errors
    /// The error that a controller would receive for such an update.
    pub fn write(&mut self, update: Update) -> Result<(), Refusal> {
        Ok(Operation::plan(update, self.program.p4info())?.carry_out(&mut self.switch)?)
    }

    /// Returns the switch without the program's config, for an [`Engine`](crate::engine::Engine)
    /// without a P4Runtime server.
    pub fn into_switch(self) -> Switch {
        self.switch
    }

    pub(crate) fn into_parts(self) -> (Arc<DeviceProgram>, Switch) {
        (self.program, self.switch)
    }
}
