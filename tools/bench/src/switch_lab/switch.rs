//! The switch under test, as a process in the lab.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_lab::{Daemons, Lab, SwitchProgram};
use tributary_p4runtime::Target;
use tributary_topology::Node;

use super::SwitchLabError;
use crate::compile::{CC, is_installed};
use crate::cpu::{self, ProcessTimes};

/// The number of lines at the end of a log that an error shows.
const SHOWN_LINES: usize = 5;

/// A switch that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchUnderTest {
    /// `tributary switch`, which receives and sends one frame at a time.
    Softswitch,
    /// The program `tributary switch` as labs run it.
    ///
    /// Neighbouring frames cross a link as one, on their way in and out.
    Joined,
    /// `tributary switch --bypass-queues`, which sends one frame at a time past its interfaces' queues.
    Bypassing,
    /// BMv2's `simple_switch_grpc`, from the PATH.
    Bmv2,
    /// `tools/bench/baselines/loop.c`, which only receives, adds and sends. It runs no programs.
    Loop,
}

impl SwitchUnderTest {
    /// Returns the name of the program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softswitch => "the embedded switch",
            Self::Joined => "the embedded switch with joined frames",
            Self::Bypassing => "the embedded switch past its queues",
            Self::Bmv2 => "simple_switch_grpc",
            Self::Loop => "the bare loop",
        }
    }

    /// Returns the requirement that this machine lacks, with a remedy; `None` if the switch can run.
    pub fn missing(self) -> Option<&'static str> {
        let (found, missing) = match self.program() {
            Some(program) => (
                program.check().is_ok(),
                "there is no simple_switch_grpc on the PATH: install BMv2 (docs/bmv2.md)",
            ),
            None => (is_installed(CC), "there is no `cc` on the PATH: install a C compiler"),
        };
        (!found).then_some(missing)
    }

    /// Returns true if the switch, and the hosts that load it, join neighbouring frames.
    pub(super) fn joins(self) -> bool {
        self == Self::Joined
    }

    /// Returns the program, if it is programmed over P4Runtime.
    fn program(self) -> Option<SwitchProgram> {
        match self {
            Self::Softswitch | Self::Joined | Self::Bypassing => Some(SwitchProgram::Embedded),
            Self::Bmv2 => Some(SwitchProgram::Bmv2),
            Self::Loop => None,
        }
    }
}

/// Processor time on all cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTimes {
    pub(super) switch: Duration,
    /// Processor time of all processes and of the kernel.
    pub(super) machine: Duration,
}

impl CpuTimes {
    /// Returns the time since an earlier reading.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            switch: self.switch.saturating_sub(earlier.switch),
            machine: self.machine.saturating_sub(earlier.machine),
        }
    }
}

/// A running switch. Its process ends when this value is dropped.
#[derive(Debug)]
pub(super) struct SwitchProcess {
    switch: SwitchUnderTest,
    child: Child,
    log: PathBuf,
    /// The switch's P4Runtime address; `None` for the loop.
    target: Option<Target>,
}

impl SwitchProcess {
    /// Starts a switch that runs programs at its station, on all interfaces there.
    ///
    /// The switch may not be ready yet when this returns.
    ///
    /// # Errors
    /// The switch does not start, or it runs no programs.
    pub(super) fn start(
        lab: &Lab,
        program: &Path,
        node: &Node,
        switch: SwitchUnderTest,
    ) -> Result<Self, SwitchLabError> {
        let switches = switch.program().ok_or(SwitchLabError::RunsNoPrograms(switch.name()))?;
        let (name, device_id) = (node.name.clone(), node.id.get());
        let mut daemons = Daemons::new(lab, program).with_switches(switches);
        if !switch.joins() {
            daemons = daemons.without_offloads();
        }
        let (mut command, address) = (daemons.switch(&name, device_id)?, daemons.p4runtime_address(&name)?);
        if switch == SwitchUnderTest::Bypassing {
            command.arg("--bypass-queues");
        }
        let mut process = Self::with_log(lab, switch, |log| {
            let failed = |step| failed(switch, step);
            let errors = log.try_clone().map_err(failed("write the log of"))?;
            command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn().map_err(failed("start"))
        })?;
        process.target = Some(Target { name, address: address.to_string(), device_id: device_id.into() });
        Ok(process)
    }

    /// Calls `start` to start the process of a switch with the given log.
    pub(super) fn with_log(
        lab: &Lab,
        switch: SwitchUnderTest,
        start: impl FnOnce(File) -> Result<Child, SwitchLabError>,
    ) -> Result<Self, SwitchLabError> {
        let log = lab.folder().join("switch.log");
        let output = File::create(&log).map_err(failed(switch, "write the log of"))?;
        Ok(Self { switch, child: start(output)?, log, target: None })
    }

    /// Returns the switch's P4Runtime address; `None` for the loop.
    pub(super) fn target(&self) -> Option<Target> {
        self.target.clone()
    }

    /// Returns the processor time of the switch, and of all processes together, on all cores.
    pub(super) fn cpu(&self) -> Result<CpuTimes, SwitchLabError> {
        let failed = |step| failed(self.switch, step);
        Ok(CpuTimes {
            switch: cpu::of_process(self.child.id())
                .map(ProcessTimes::total)
                .map_err(failed("read the CPU time of"))?,
            machine: cpu::of_machine().map_err(failed("read the machine's CPU time beside"))?,
        })
    }

    /// Adds the end of the switch's log to an error.
    pub(super) fn explain<T>(&self, result: Result<T, SwitchLabError>) -> Result<T, SwitchLabError> {
        result.map_err(|error| SwitchLabError::Switch {
            switch: self.switch.name(),
            error: Box::new(error),
            words: last_words(&self.log),
        })
    }
}

impl Drop for SwitchProcess {
    fn drop(&mut self) {
        // `kill` fails if the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(switch: SwitchUnderTest, step: &'static str) -> impl FnOnce(io::Error) -> SwitchLabError {
    move |reason| SwitchLabError::Process { switch: switch.name(), step, reason }
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    if lines.is_empty() {
        return "none".to_owned();
    }
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}
