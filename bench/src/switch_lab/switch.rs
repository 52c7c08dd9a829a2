//! The switch under test, as a process in the lab.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tributary_lab::{Daemons, Lab, SwitchProgram};
use tributary_p4runtime::Target;
use tributary_topology::Node;

use super::{SwitchLabError, cpu};

/// As many lines of a log as an error shows.
const SHOWN_LINES: usize = 5;

/// A switch that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SwitchUnderTest {
    /// `tributary switch`.
    Softswitch,
    /// BMv2's `simple_switch_grpc`, from the PATH.
    Bmv2,
}

impl SwitchUnderTest {
    /// What the program is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softswitch => "the embedded switch",
            Self::Bmv2 => "simple_switch_grpc",
        }
    }

    fn program(self) -> SwitchProgram {
        match self {
            Self::Softswitch => SwitchProgram::Embedded,
            Self::Bmv2 => SwitchProgram::Bmv2,
        }
    }
}

/// What was had of all cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTimes {
    pub(super) switch: Duration,
    /// By all processes and the kernel.
    pub(super) machine: Duration,
}

impl CpuTimes {
    /// What came since an earlier time.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            switch: self.switch.saturating_sub(earlier.switch),
            machine: self.machine.saturating_sub(earlier.machine),
        }
    }
}

/// A switch that runs; it is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    switch: SwitchUnderTest,
    child: Child,
    log: PathBuf,
    target: Target,
}

impl Process {
    /// Starts it at the station of `node`, on all interfaces there. It may not be up yet.
    pub(super) fn start(
        lab: &Lab,
        program: &Path,
        switch: SwitchUnderTest,
        node: &Node,
    ) -> Result<Self, SwitchLabError> {
        let failed = |step| move |reason| SwitchLabError::Process { switch: switch.name(), step, reason };
        let (name, device_id) = (node.name.clone(), node.id.get());
        let daemons = Daemons::new(lab, program).with_switches(switch.program());
        let (mut command, address) = (daemons.switch(&name, device_id)?, daemons.p4runtime_address(&name)?);
        let log = lab.folder().join("switch.log");
        let output = File::create(&log).map_err(failed("write the log of"))?;
        let errors = output.try_clone().map_err(failed("write the log of"))?;
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let target = Target { name, address: address.to_string(), device_id: device_id.into() };
        Ok(Self { switch, child: child.map_err(failed("start"))?, log, target })
    }

    /// Where it serves P4Runtime.
    pub(super) fn target(&self) -> Target {
        self.target.clone()
    }

    /// The time that it has had of all cores, and that of all processes together.
    pub(super) fn cpu(&self) -> Result<CpuTimes, SwitchLabError> {
        let failed =
            |step| move |reason| SwitchLabError::Process { switch: self.switch.name(), step, reason };
        Ok(CpuTimes {
            switch: cpu::of_process(self.child.id()).map_err(failed("read the CPU time of"))?,
            machine: cpu::of_machine().map_err(failed("read the machine's CPU time beside"))?,
        })
    }

    /// Adds to an error what the switch has to say.
    pub(super) fn explain<T>(&self, result: Result<T, SwitchLabError>) -> Result<T, SwitchLabError> {
        result.map_err(|error| SwitchLabError::Switch {
            switch: self.switch.name(),
            error: Box::new(error),
            words: last_words(&self.log),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    if lines.is_empty() {
        return "none".to_owned();
    }
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}
