//! The results, for people and programs.

use std::fmt;

use anyhow::{Result, ensure};
use bytesize::ByteSize;
use serde::Serialize;
use tributary_bench::comparison::Machine;
use tributary_bench::cpu::ProcessTimes;
use tributary_bench::statistics::Summary;
use tributary_cli::output;

use crate::measurements::counters::Carried;

const GIB: f64 = (1_u64 << 30) as f64;

/// Seconds that an agent took for a GiB in November 2026, with slices of 256 values.
///
/// The machine had two virtual cores.
const STORED: Stored = Stored { user: 0.8, system: 3.3 };
/// The largest wanted time of an agent, relative to `STORED`, by the number of values in a slice.
///
/// It is reported but not enforced, because other machines give other figures.
const WANTED: [(usize, f64); 2] = [(256, 0.5), (2048, 0.2)];

/// The measured figures of one turn, over all agents.
#[derive(Debug)]
pub(super) struct AgentTurn {
    pub(super) agents: usize,
    /// Bytes of the tensor that each agent has reduced.
    pub(super) bytes: f64,
    /// Processor time of all agents.
    pub(super) times: ProcessTimes,
    /// Traffic at all agents' interfaces, in both directions.
    pub(super) carried: Carried,
    /// Time that the turn took.
    pub(super) seconds: f64,
    pub(super) retransmissions: u64,
}

impl AgentTurn {
    /// Returns one agent's share of the total `of_all`, for a GiB.
    fn per_gib(&self, of_all: f64) -> f64 {
        of_all / self.agents as f64 / (self.bytes / GIB)
    }

    fn user(&self) -> f64 {
        self.per_gib(self.times.user.as_secs_f64())
    }

    fn system(&self) -> f64 {
        self.per_gib(self.times.system.as_secs_f64())
    }

    fn frames_per_second(&self) -> f64 {
        self.carried.frames as f64 / self.agents as f64 / self.seconds
    }
}

impl fmt::Display for AgentTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, system, frames) = (self.user(), self.system(), self.frames_per_second());
        write!(f, "{user:.2} s of user and {system:.2} s of system time per GiB, {frames:.0} frames/s")
    }
}

/// Seconds per GiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Stored {
    user: f64,
    system: f64,
}

/// The results of one width; all figures are per agent.
#[derive(Debug, Serialize)]
pub(super) struct WidthResults {
    mtu: u16,
    /// Values in a slice.
    values: usize,
    user_seconds_per_gib: Summary,
    system_seconds_per_gib: Summary,
    /// User and system time together.
    seconds_per_gib: Summary,
    /// Frames received and sent per second while the agent reduced.
    frames_per_second: Summary,
    /// Frames received and sent, with all headers, for a GiB.
    frames_per_gib: Summary,
    bytes_per_gib: Summary,
    /// Bytes of the tensor reduced per second.
    tensor_bytes_per_second: Summary,
    /// Slices that all workers retransmitted, in all rounds.
    retransmissions: u64,
    /// The medians relative to the stored figures for 256 values.
    to_stored: CpuTimeRatios,
    /// The wanted limit of user and system time together, relative to the stored figures.
    wanted: Option<f64>,
}

/// CPU times, divided by the stored CPU times.
#[derive(Debug, Serialize)]
struct CpuTimeRatios {
    user: f64,
    system: f64,
    together: f64,
}

impl WidthResults {
    /// Summarises all turns of one width.
    ///
    /// # Errors
    /// There were no turns, or no agents in them.
    pub(super) fn of(mtu: u16, values: usize, turns: &[AgentTurn]) -> Result<Self> {
        ensure!(turns.iter().all(|turn| turn.agents > 0), "the network had no agent of a worker");
        let summary = |of: &dyn Fn(&AgentTurn) -> f64| Summary::of(&turns.iter().map(of).collect::<Vec<_>>());
        let (user, system) = (summary(&AgentTurn::user)?, summary(&AgentTurn::system)?);
        let together = summary(&|turn| turn.user() + turn.system())?;
        let wanted = WANTED.into_iter().find(|(width, _)| *width == values).map(|(_, part)| part);
        Ok(Self {
            mtu,
            values,
            user_seconds_per_gib: user,
            system_seconds_per_gib: system,
            seconds_per_gib: together,
            frames_per_second: summary(&AgentTurn::frames_per_second)?,
            frames_per_gib: summary(&|turn| turn.per_gib(turn.carried.frames as f64))?,
            bytes_per_gib: summary(&|turn| turn.per_gib(turn.carried.bytes as f64))?,
            tensor_bytes_per_second: summary(&|turn| turn.bytes / turn.seconds)?,
            retransmissions: turns.iter().map(|turn| turn.retransmissions).sum(),
            to_stored: CpuTimeRatios {
                user: user.median / STORED.user,
                system: system.median / STORED.system,
                together: together.median / (STORED.user + STORED.system),
            },
            wanted,
        })
    }

    fn row(&self) -> [String; 9] {
        let seconds = |times: &Summary| format!("{:.2}", times.median);
        let wanted = match self.wanted {
            Some(wanted) if self.to_stored.together <= wanted => format!("{wanted}, reached"),
            Some(wanted) => format!("{wanted}, not reached"),
            None => String::new(),
        };
        [
            format!("{} (MTU {})", self.values, self.mtu),
            seconds(&self.user_seconds_per_gib),
            seconds(&self.system_seconds_per_gib),
            format!(
                "{} ({:.2} to {:.2})",
                seconds(&self.seconds_per_gib),
                self.seconds_per_gib.min,
                self.seconds_per_gib.max
            ),
            format!("{:.2}", self.to_stored.together),
            wanted,
            format!("{:.0}", self.frames_per_second.median),
            ByteSize(self.bytes_per_gib.median as u64).to_string(),
            format!("{:.0} MB/s", self.tensor_bytes_per_second.median / 1e6),
        ]
    }
}

/// The whole measurement.
#[derive(Debug, Serialize)]
pub(super) struct AgentReport {
    pub(super) topology: String,
    pub(super) workers: usize,
    /// Size of the tensor.
    pub(super) bytes: u64,
    /// All-reduces in each turn.
    pub(super) iterations: u32,
    pub(super) cases: Vec<WidthResults>,
    pub(super) machine: Machine,
}

impl AgentReport {
    pub(super) fn text(&self) -> String {
        let mut table = output::number_table(&[
            "values",
            "user s/GiB",
            "system s/GiB",
            "together",
            "to stored",
            "wanted",
            "frames/s",
            "on the wire/GiB",
            "tensor",
        ]);
        for case in &self.cases {
            table.add_row(case.row());
        }
        let again: u64 = self.cases.iter().map(|case| case.retransmissions).sum();
        format!(
            "{table}\n\
             processor time of one agent for each GiB of the tensor; frames and bytes in both directions, as the \
             kernel counts them: up to 32 packets cross a veth pair as one frame\n\
             stored: an earlier measurement, perhaps on another machine: {} s of user and {} s of system time with \
             256 values\n\
             all-reduces of {} of f32 over {} workers, topology {}: every sum is right, {again} retransmissions",
            STORED.user,
            STORED.system,
            ByteSize(self.bytes),
            self.workers,
            self.topology,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn turn(user: u64, system: u64) -> AgentTurn {
        let times = ProcessTimes { user: Duration::from_millis(user), system: Duration::from_millis(system) };
        AgentTurn {
            agents: 2,
            bytes: GIB / 2.0,
            times,
            carried: Carried { bytes: 3 << 30, frames: 2000 },
            seconds: 4.0,
            retransmissions: 1,
        }
    }

    #[test]
    fn figures_are_those_of_one_agent_and_a_whole_gib() {
        let case = WidthResults::of(1500, 256, &[turn(800, 1200), turn(700, 1300), turn(900, 1100)]).unwrap();
        assert_eq!(case.user_seconds_per_gib.median, 0.8);
        assert_eq!(case.system_seconds_per_gib.median, 1.2);
        assert_eq!(case.seconds_per_gib.max, 2.0);
        assert_eq!(case.frames_per_second.median, 250.0);
        assert_eq!(case.bytes_per_gib.median, 3.0 * GIB);
        assert_eq!(case.retransmissions, 3);
        assert_eq!((case.to_stored.user, case.wanted), (1.0, Some(0.5)));
        assert_eq!(case.row()[5], "0.5, reached");
    }

    #[test]
    fn what_is_slower_than_wanted_says_so_and_other_widths_say_nothing() {
        assert_eq!(WidthResults::of(9000, 2048, &[turn(800, 1200)]).unwrap().row()[5], "0.2, not reached");
        assert_eq!(WidthResults::of(700, 128, &[turn(800, 1200)]).unwrap().row()[5], "");
    }
}
