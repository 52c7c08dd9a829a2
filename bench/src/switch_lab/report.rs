//! What came out, for people and programs.

use serde::{Deserialize, Serialize};

use super::switch::CpuTimes;
use super::{SwitchLabError, SwitchLabOptions, SwitchUnderTest};
use crate::generator::Outcome;
use crate::statistics::{Ratio, Summary};

/// How many times as many slices as BMv2 the embedded switch must do.
pub const LIMIT: f64 = 2.5;
/// How many times it should.
pub const GOAL: f64 = 4.0;

/// One switch, measured once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which switch.
    pub switch: SwitchUnderTest,
    /// Which of its runs, from 1.
    pub run: usize,
    /// Aggregated slices a second.
    pub slices_per_second: f64,
    /// Slices whose sum came out.
    pub slices: u64,
    /// How many of them were sent again, since a frame was lost.
    pub resent: u64,
    /// How long it was counted.
    pub seconds: f64,
    /// What the switch has had of all cores in that time.
    pub switch_cpu_seconds: f64,
    /// What the generator has had of a core.
    pub generator_cpu_seconds: f64,
    /// What everything else has had of all cores: a run that others disturbed is known by it.
    pub other_cpu_seconds: f64,
}

impl Run {
    pub(super) fn new(switch: SwitchUnderTest, run: usize, counted: &Outcome, times: CpuTimes) -> Self {
        let CpuTimes { switch: switch_cpu, machine } = times;
        Self {
            switch,
            run,
            slices_per_second: counted.rate(),
            slices: counted.slices,
            resent: counted.resent,
            seconds: counted.elapsed.as_secs_f64(),
            switch_cpu_seconds: switch_cpu.as_secs_f64(),
            generator_cpu_seconds: counted.cpu.as_secs_f64(),
            other_cpu_seconds: machine.saturating_sub(switch_cpu + counted.cpu).as_secs_f64(),
        }
    }
}

/// All runs of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Which switch.
    pub switch: SwitchUnderTest,
    /// Aggregated slices a second.
    pub slices_per_second: Summary,
    /// How many cores the switch kept busy, of those that the machine has.
    pub switch_cores: Summary,
    /// How much of its core the generator kept busy.
    pub generator_cores: Summary,
    /// How many cores everything else kept busy.
    pub other_cores: Summary,
    /// Slices that were sent again, in all runs.
    pub resent: u64,
}

/// The whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Slices under way at once.
    pub window: u32,
    /// One for each switch.
    pub candidates: Vec<Candidate>,
    /// How many times as many slices as BMv2 the embedded switch did; `None` when only one was measured.
    pub ratio: Option<Ratio>,
    /// What `ratio` must be.
    pub limit: f64,
    /// What it should be.
    pub goal: f64,
    /// Whether it is what it must be; `None` when only one was measured.
    pub passed: Option<bool>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl Report {
    pub(super) fn new(options: &SwitchLabOptions, runs: Vec<Run>) -> Result<Self, SwitchLabError> {
        let candidates = options.switches.iter().map(|switch| candidate(*switch, &runs));
        let candidates = candidates.collect::<Result<_, _>>()?;
        let rates = |switch| figures(&runs, switch, |run| run.slices_per_second);
        let (ours, bmv2) = (rates(SwitchUnderTest::Softswitch), rates(SwitchUnderTest::Bmv2));
        let both = !ours.is_empty() && !bmv2.is_empty();
        let ratio = both.then(|| Ratio::of_pairs(&ours, &bmv2)).transpose()?;
        Ok(Self {
            window: options.window,
            candidates,
            ratio,
            limit: LIMIT,
            goal: GOAL,
            passed: ratio.map(|ratio| ratio.of_medians >= LIMIT),
            runs,
        })
    }
}

fn candidate(switch: SwitchUnderTest, runs: &[Run]) -> Result<Candidate, SwitchLabError> {
    let summary = |figure: fn(&Run) -> f64| Summary::of(&figures(runs, switch, figure));
    Ok(Candidate {
        switch,
        slices_per_second: summary(|run| run.slices_per_second)?,
        switch_cores: summary(|run| run.switch_cpu_seconds / run.seconds)?,
        generator_cores: summary(|run| run.generator_cpu_seconds / run.seconds)?,
        other_cores: summary(|run| run.other_cpu_seconds / run.seconds)?,
        resent: runs.iter().filter(|run| run.switch == switch).map(|run| run.resent).sum(),
    })
}

fn figures(runs: &[Run], switch: SwitchUnderTest, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.switch == switch).map(figure).collect()
}
