//! The report of `tributary-bench schedule`.

use serde::{Deserialize, Serialize};
use tributary_bench::comparison::Machine;
use tributary_bench::statistics::{Ratio, Summary};
use tributary_cli::output;
use tributary_topology::format_rate;

/// Names of the ways to send gradients.
///
/// They are time points, one collective per tensor, and one collective for all tensors.
pub(super) const POINTS: &str = "points";
const TENSOR: &str = "tensor";
const ONE: &str = "one";
/// The least time of one collective per tensor, relative to time points.
const FASTER_THAN_TENSOR: f64 = 1.3;
/// The least time of one collective for all tensors, relative to time points.
///
/// Apart from noise, time points are never slower.
const FASTER_THAN_ONE: f64 = 0.98;

/// The results; times are in seconds.
#[derive(Debug, Serialize)]
pub(super) struct ScheduleReport {
    pub(super) topology: String,
    pub(super) workers: usize,
    pub(super) rate_bits_per_second: u64,
    #[serde(flatten)]
    pub(super) model: Model,
    pub(super) ways: Vec<MethodTimes>,
    #[serde(flatten)]
    pub(super) scheduled: Scheduled,
    pub(super) limits: Vec<Condition>,
    pub(super) machine: Machine,
}

/// The trained model.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Model {
    /// A model whose gradients come in bursts. The time of a backward pass is measured.
    Bursts { bursts: u32, sizes: Vec<u64>, compute_milliseconds: u64, stall_milliseconds: u64 },
    /// The model of an example script. The time of a step is measured.
    Example { example: String },
}

/// One way to send gradients.
#[derive(Debug, Serialize)]
pub(super) struct MethodTimes {
    pub(super) name: String,
    /// Time of a backward pass, or of a step: the slowest rank's median of each round.
    pub(super) seconds: Summary,
    /// This time relative to time points, round by round.
    pub(super) to_points: Ratio,
}

/// A condition that must hold.
#[derive(Debug, Serialize)]
pub(super) struct Condition {
    pub(super) what: String,
    pub(super) holds: bool,
}

/// The report of a rank at the end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Scheduled {
    /// Number of profiles until a schedule existed.
    pub(super) profiles: u32,
    /// Number of sets in the schedule from the last profile, before its trial.
    pub(super) profiled_sets: u32,
    /// Number of sets in the schedule after the trial; 1 if time points were slower in the trial.
    pub(super) sets: u32,
    /// Number of this rank's most recent sets that were late.
    pub(super) late_sets: u32,
    /// Number of collectives that did not use the fabric during the turns of time points.
    pub(super) other_messages: u32,
}

/// Returns the conditions.
///
/// An example has one condition: time points send all gradients over the fabric.
pub(super) fn limits(model: &Model, ways: &[MethodTimes], scheduled: Scheduled) -> Vec<Condition> {
    let limit = |what: String, holds: bool| Condition { what, holds };
    let mut limits = vec![limit(
        format!("{} other messages between ranks after the profile", scheduled.other_messages),
        scheduled.other_messages == 0,
    )];
    let Model::Bursts { bursts, stall_milliseconds, .. } = model else { return limits };
    let ratio =
        |name: &str| ways.iter().find(|way| way.name == name).map_or(0.0, |way| way.to_points.of_medians);
    let (tensor, one) = (ratio(TENSOR), ratio(ONE));
    let profiles = if *stall_milliseconds > 0 { 2 } else { 1 };
    limits.extend([
        limit(
            format!(
                "a collective for each tensor takes {tensor:.2} times as long as time points (at least \
                 {FASTER_THAN_TENSOR})"
            ),
            tensor >= FASTER_THAN_TENSOR,
        ),
        limit(
            format!(
                "one collective for all tensors takes {one:.2} times as long as time points (at least \
                     {FASTER_THAN_ONE})"
            ),
            one >= FASTER_THAN_ONE,
        ),
        limit(
            format!("{} profiles until a schedule existed (at least {profiles})", scheduled.profiles),
            scheduled.profiles >= profiles,
        ),
        limit(
            format!("{} sets in the profile of {bursts} bursts", scheduled.profiled_sets),
            scheduled.profiled_sets == *bursts,
        ),
    ]);
    limits
}

impl ScheduleReport {
    /// Formats the whole report for people.
    pub(super) fn text(&self) -> String {
        let mut table = output::table(&[
            "gradients are sent",
            self.model.measured(),
            "from",
            "to",
            "relative to time points",
        ]);
        for way in &self.ways {
            let name = match way.name.as_str() {
                POINTS => format!("at time points, {} sets", self.scheduled.sets),
                TENSOR => "each tensor by itself".to_owned(),
                ONE => "all together".to_owned(),
                size => format!("in buckets of {size}"),
            };
            let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
            let Summary { median, min, max, .. } = way.seconds;
            let ratio = format!("{:.2} x", way.to_points.of_medians);
            table.add_row([name, milliseconds(median), milliseconds(min), milliseconds(max), ratio]);
        }
        let limits = self.limits.iter().map(|limit| {
            let mark = if limit.holds { "holds" } else { "MISSED" };
            format!("{mark}: {}", limit.what)
        });
        format!(
            "{}; {} workers, topology {}, links of {}\n{table}\n{}",
            self.model.describe(),
            self.workers,
            self.topology,
            format_rate(self.rate_bits_per_second),
            limits.collect::<Vec<_>>().join("\n"),
        )
    }
}

impl Model {
    fn measured(&self) -> &'static str {
        match self {
            Self::Bursts { .. } => "backward pass",
            Self::Example { .. } => "step",
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Bursts { bursts, sizes, compute_milliseconds, .. } => format!(
                "{bursts} bursts of {} tensors, {} bytes each burst, {compute_milliseconds} ms of computing before each, \
                 every gradient is right",
                sizes.len(),
                sizes.iter().sum::<u64>(),
            ),
            Self::Example { example } => format!("{example}, all ways learn the same"),
        }
    }
}
