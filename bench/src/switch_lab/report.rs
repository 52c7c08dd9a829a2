//! What came out, for people and programs.

use serde::{Deserialize, Serialize};

use super::switch::CpuTimes;
use super::{SwitchLabError, SwitchUnderTest};
use crate::generator::Outcome;
use crate::statistics::{Ratio, Summary};

/// How many times as many slices as another the embedded switch must do. No packet socket is faster than the loop's: a
/// switch that is as fast loses nothing to its program.
const LIMITS: [(SwitchUnderTest, f64); 2] = [(SwitchUnderTest::Loop, 1.0), (SwitchUnderTest::Bmv2, 10.0)];

/// What the switches were measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The longest packet that the links carry, in bytes.
    pub mtu: u16,
    /// How many values a slice has.
    pub values: usize,
    /// Slices under way at once.
    pub window: u32,
}

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

/// The embedded switch beside another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Which other.
    pub other: SwitchUnderTest,
    /// How many times as many slices the embedded switch did.
    pub ratio: Ratio,
    /// What the ratio of the medians must be.
    pub limit: f64,
    /// Whether it is.
    pub passed: bool,
}

/// What came out with one width and one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// With what.
    #[serde(flatten)]
    pub setting: Setting,
    /// One for each switch.
    pub candidates: Vec<Candidate>,
    /// With each of the others that was measured, if the embedded switch was.
    pub comparisons: Vec<Comparison>,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

impl Case {
    /// Of all runs with one setting.
    pub(super) fn new(
        setting: Setting,
        switches: &[SwitchUnderTest],
        runs: Vec<Run>,
    ) -> Result<Self, SwitchLabError> {
        let candidates = switches.iter().map(|switch| candidate(*switch, &runs));
        let candidates = candidates.collect::<Result<_, _>>()?;
        let rates = |switch| figures(&runs, switch, |run| run.slices_per_second);
        let ours = rates(SwitchUnderTest::Softswitch);
        let mut comparisons = Vec::new();
        for (other, limit) in LIMITS {
            let others = rates(other);
            if ours.is_empty() || others.is_empty() {
                continue;
            }
            let ratio = Ratio::of_pairs(&ours, &others)?;
            comparisons.push(Comparison { other, ratio, limit, passed: ratio.of_medians >= limit });
        }
        Ok(Self { setting, candidates, comparisons, runs })
    }
}

/// The whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// One for each width and window.
    pub cases: Vec<Case>,
    /// Whether all ratios are what they must be; `None` when nothing was compared.
    pub passed: Option<bool>,
}

impl Report {
    /// Of all cases.
    pub(super) fn new(cases: Vec<Case>) -> Self {
        let compared = || cases.iter().flat_map(|case| &case.comparisons);
        let passed = compared().next().map(|_| compared().all(|comparison| comparison.passed));
        Self { cases, passed }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn case(rates: &[(SwitchUnderTest, f64)]) -> Case {
        let run = |&(switch, slices_per_second)| Run {
            switch,
            run: 1,
            slices_per_second,
            slices: 1,
            resent: 0,
            seconds: 1.0,
            switch_cpu_seconds: 0.5,
            generator_cpu_seconds: 0.5,
            other_cpu_seconds: 0.0,
        };
        let switches: Vec<_> = rates.iter().map(|(switch, _)| *switch).collect();
        let setting = Setting { mtu: 1500, values: 256, window: 16 };
        Case::new(setting, &switches, rates.iter().map(run).collect()).unwrap()
    }

    #[test]
    fn the_embedded_switch_has_to_be_as_fast_as_the_loop_and_ten_times_as_fast_as_bmv2() {
        use SwitchUnderTest::{Bmv2, Loop, Softswitch};
        let passed = |rates: &[_]| Report::new(vec![case(rates)]).passed;
        assert_eq!(passed(&[(Softswitch, 100.0), (Loop, 100.0), (Bmv2, 10.0)]), Some(true));
        assert_eq!(passed(&[(Softswitch, 100.0), (Loop, 101.0), (Bmv2, 10.0)]), Some(false));
        assert_eq!(passed(&[(Softswitch, 100.0), (Loop, 90.0), (Bmv2, 11.0)]), Some(false));
        assert_eq!(passed(&[(Softswitch, 100.0)]), None);
        assert_eq!(passed(&[(Loop, 100.0), (Bmv2, 10.0)]), None);
    }
}
