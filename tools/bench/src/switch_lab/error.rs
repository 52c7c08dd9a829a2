use std::io;

use thiserror::Error;
use tributary_lab::LabError;
use tributary_p4runtime::SessionError;
use tributary_p4runtime::entry::EntryError;
use tributary_p4runtime::p4info::P4InfoError;
use tributary_topology::{Problem, TopologyError};

use crate::compile::CompileError;
use crate::generator::GeneratorError;
use crate::statistics::StatisticsError;

/// An error of measuring switches.
#[derive(Debug, Error)]
pub enum SwitchLabError {
    /// The network could not be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The built-in topology is malformed, which is a defect of Tributary.
    #[error("the built-in topology: {0}")]
    BadTopology(TopologyError),
    /// The built-in topology has the wrong nodes, which is a defect of Tributary.
    #[error("the built-in topology is not a switch with a server and two workers")]
    Topology,
    /// The switch could not be started.
    #[error("cannot {step} {switch}: {reason}")]
    Process {
        /// The switch.
        switch: &'static str,
        /// The step that failed.
        step: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// A measurement that needs a program was requested of a switch that runs none.
    #[error("{0} runs no programs: it only aggregates")]
    RunsNoPrograms(&'static str),
    /// A run failed, perhaps because the switch has ended.
    #[error("{error}; the last log lines of {switch}: {words}")]
    Switch {
        /// The switch.
        switch: &'static str,
        /// The error of the run.
        error: Box<SwitchLabError>,
        /// The end of the switch's log.
        words: String,
    },
    /// The MTU is too small for a slice.
    #[error("an MTU of {0}: no slice fits into a packet of this size; the smallest possible MTU is {1}")]
    Mtu(u16, usize),
    /// The requested length of frames is too short or too long.
    #[error("frames of {bytes} bytes: frames have {least} to {most} bytes")]
    FrameLength {
        /// The requested length.
        bytes: usize,
        /// The shortest length, which has room for the headers and a packet's number.
        least: usize,
        /// The longest length of an Ethernet frame.
        most: usize,
    },
    /// The topology does not allow this MTU.
    #[error("the links' MTU: {0}")]
    BadMtu(Problem),
    /// A baseline could not be compiled.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The tables could not be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The built-in P4Info is malformed, which is a defect of Tributary.
    #[error("the built-in program does not fit: {0}")]
    P4Info(P4InfoError),
    /// The program and the entries do not fit, which is a defect of Tributary.
    #[error(transparent)]
    Entry(#[from] EntryError),
    /// The load generator failed.
    #[error(transparent)]
    Generator(#[from] GeneratorError),
    /// The statistics could not be computed.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// The caller stopped the measurement.
    #[error("stopped by a signal")]
    Stopped,
}
