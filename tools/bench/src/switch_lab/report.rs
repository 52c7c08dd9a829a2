//! The results, for people and programs.

use serde::{Deserialize, Serialize};

use super::switch::CpuTimes;
use super::{SwitchLabError, SwitchUnderTest};
use crate::generator::GeneratorRun;
use crate::statistics::{Ratio, Summary};

/// One run of one switch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The switch.
    pub switch: SwitchUnderTest,
    /// The number of the switch's run, from 1.
    pub run: usize,
    /// Slices or packets per second.
    pub per_second: f64,
    /// Number of slices whose sum came out, or of packets that came out.
    pub items: u64,
    /// The number of items sent again because a frame was lost.
    pub resent: u64,
    /// The measured time, in seconds.
    pub seconds: f64,
    /// Processor time of the switch on all cores during the measured time.
    pub switch_cpu_seconds: f64,
    /// Processor time of the generator's thread.
    pub generator_cpu_seconds: f64,
    /// Processor time of all other processes on all cores: a high value means that the run was disturbed.
    pub other_cpu_seconds: f64,
}

impl Run {
    pub(super) fn new(switch: SwitchUnderTest, run: usize, counted: &GeneratorRun, times: CpuTimes) -> Self {
        let CpuTimes { switch: switch_cpu, machine } = times;
        Self {
            switch,
            run,
            per_second: counted.rate(),
            items: counted.items,
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
    /// The switch.
    pub switch: SwitchUnderTest,
    /// Slices or packets per second.
    pub per_second: Summary,
    /// Number of cores that the switch kept busy.
    pub switch_cores: Summary,
    /// Share of one core that the generator kept busy.
    pub generator_cores: Summary,
    /// Number of cores that all other processes kept busy.
    pub other_cores: Summary,
    /// The number of items sent again in all runs.
    pub resent: u64,
}

/// A requested comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Versus {
    /// The switch of this project.
    pub(super) ours: SwitchUnderTest,
    /// The switch with which this project's switch is compared.
    pub(super) other: SwitchUnderTest,
    /// The least allowed ratio of our rate to the other's; `None` without a limit.
    pub(super) limit: Option<f64>,
}

/// A switch of this project, compared with another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The switch of this project.
    pub switch: SwitchUnderTest,
    /// The switch with which this project's switch is compared.
    pub other: SwitchUnderTest,
    /// Ratio of our rate to the other's.
    pub ratio: Ratio,
    /// The least allowed ratio of the medians; `None` without a limit.
    pub limit: Option<f64>,
    /// True if the ratio reaches the limit.
    pub passed: bool,
}

/// The results with one setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingResults<Setting> {
    /// The setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// The results of each switch.
    pub candidates: Vec<Candidate>,
    /// The comparisons for which both switches were measured.
    pub comparisons: Vec<Comparison>,
    /// The runs in the order in which they took place.
    pub runs: Vec<Run>,
}

impl<Setting> SettingResults<Setting> {
    /// Summarises all runs with one setting. Makes those comparisons for which both switches were measured.
    pub(super) fn new(
        setting: Setting,
        switches: &[SwitchUnderTest],
        wanted: &[Versus],
        runs: Vec<Run>,
    ) -> Result<Self, SwitchLabError> {
        let candidates = switches.iter().map(|switch| candidate(*switch, &runs));
        let candidates = candidates.collect::<Result<_, _>>()?;
        let rates = |switch| figures(&runs, switch, |run| run.per_second);
        let mut comparisons = Vec::new();
        for &Versus { ours: switch, other, limit } in wanted {
            let (ours, others) = (rates(switch), rates(other));
            if ours.is_empty() || others.is_empty() {
                continue;
            }
            let ratio = Ratio::of_pairs(&ours, &others)?;
            let passed = limit.is_none_or(|limit| ratio.of_medians >= limit);
            comparisons.push(Comparison { switch, other, ratio, limit, passed });
        }
        Ok(Self { setting, candidates, comparisons, runs })
    }
}

/// The whole measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchLabReport<Setting> {
    /// The results of each setting.
    pub cases: Vec<SettingResults<Setting>>,
    /// True if all ratios reach their limits; `None` if no ratio with a limit was measured.
    pub passed: Option<bool>,
}

impl<Setting> SwitchLabReport<Setting> {
    /// Makes the report on all cases.
    pub(super) fn new(cases: Vec<SettingResults<Setting>>) -> Self {
        let limited = || {
            cases.iter().flat_map(|case| &case.comparisons).filter(|comparison| comparison.limit.is_some())
        };
        let passed = limited().next().map(|_| limited().all(|comparison| comparison.passed));
        Self { cases, passed }
    }
}

fn candidate(switch: SwitchUnderTest, runs: &[Run]) -> Result<Candidate, SwitchLabError> {
    let summary = |figure: fn(&Run) -> f64| Summary::of(&figures(runs, switch, figure));
    Ok(Candidate {
        switch,
        per_second: summary(|run| run.per_second)?,
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
    use SwitchUnderTest::{Bmv2, Joined, Loop, Softswitch};

    use super::*;

    const WANTED: [Versus; 3] = [
        Versus { ours: Joined, other: Loop, limit: Some(1.0) },
        Versus { ours: Joined, other: Bmv2, limit: Some(10.0) },
        Versus { ours: Softswitch, other: Loop, limit: None },
    ];

    fn case(rates: &[(SwitchUnderTest, f64)]) -> SettingResults<()> {
        let run = |&(switch, per_second)| Run {
            switch,
            run: 1,
            per_second,
            items: 1,
            resent: 0,
            seconds: 1.0,
            switch_cpu_seconds: 0.5,
            generator_cpu_seconds: 0.5,
            other_cpu_seconds: 0.0,
        };
        let switches: Vec<_> = rates.iter().map(|(switch, _)| *switch).collect();
        SettingResults::new((), &switches, &WANTED, rates.iter().map(run).collect()).unwrap()
    }

    #[test]
    fn every_ratio_has_to_reach_its_limit() {
        let passed = |rates: &[_]| SwitchLabReport::new(vec![case(rates)]).passed;
        assert_eq!(passed(&[(Joined, 100.0), (Loop, 100.0), (Bmv2, 10.0)]), Some(true));
        assert_eq!(passed(&[(Joined, 100.0), (Loop, 101.0), (Bmv2, 10.0)]), Some(false));
        assert_eq!(passed(&[(Joined, 100.0), (Loop, 90.0), (Bmv2, 11.0)]), Some(false));
        assert_eq!(passed(&[(Joined, 100.0)]), None);
        assert_eq!(passed(&[(Loop, 100.0), (Bmv2, 10.0)]), None);
    }

    #[test]
    fn a_ratio_without_a_limit_is_told_and_no_more() {
        let case = case(&[(Softswitch, 100.0), (Loop, 200.0)]);
        assert_eq!(
            case.comparisons.iter().map(|one| (one.ratio.of_medians, one.passed)).collect::<Vec<_>>(),
            [(0.5, true)]
        );
        assert_eq!(SwitchLabReport::new(vec![case]).passed, None);
    }
}
