//! The results of a comparison.

use serde::{Deserialize, Serialize};

use super::contender::{Case, Contender};
use super::gates::{self, Gate};
use super::limit::Limit;
use super::ratios::Ratios;
use super::setting::ComparisonSetting;
use crate::statistics::{Ratio, StatisticsError, Summary};

/// One turn of one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// The time of each all-reduce on its slowest rank. The list is not empty.
    pub seconds: Vec<f64>,
    /// Bytes that the busiest direction of a link carried per all-reduce, including headers
    /// and retransmissions.
    pub link_bytes: f64,
    /// Share of the time of all processors in which they were not idle during the turn.
    pub processor_share: f64,
}

/// All turns of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Time of each all-reduce.
    pub seconds: Summary,
    /// The median time relative to the time that the tensor without headers takes on one link.
    pub to_bare: f64,
    /// Median bytes that the busiest direction of a link carried per all-reduce, relative to the tensor.
    pub link_load: f64,
    /// Share of the median time in which the busiest link was sending.
    pub link_share: f64,
    /// Median share of the time of all processors in which they were not idle.
    pub processor_share: f64,
    /// The bottleneck of the all-reduces.
    pub limit: Limit,
    /// The median of each turn in order, in seconds.
    pub turns: Vec<f64>,
}

/// The report of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonReport {
    /// The setting.
    #[serde(flatten)]
    pub setting: ComparisonSetting,
    /// The rows, in the order in which the cases took turns.
    pub rows: Vec<Row>,
    /// The ratios, in the order of the rows.
    pub ratios: Vec<Ratios>,
    /// The limits that this project sets itself, if they apply to the setting.
    pub gates: Vec<Gate>,
}

impl ComparisonReport {
    /// Makes the report on all turns, each with its case, in the order in which they took place.
    ///
    /// # Errors
    /// A turn has no all-reduce, or an all-reduce of zero duration.
    pub fn of(setting: ComparisonSetting, turns: &[(Case, Turn)]) -> Result<Self, StatisticsError> {
        let mut cases: Vec<Case> = Vec::new();
        for (case, _) in turns {
            if !cases.contains(case) {
                cases.push(*case);
            }
        }
        let rows = cases.iter().map(|case| {
            let turns = turns.iter().filter(|(other, _)| other == case);
            row(&setting, *case, &turns.map(|(_, turn)| turn).collect::<Vec<_>>())
        });
        let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
        let ratios = ratios(&rows)?;
        let gates = gates::judge(&setting, &ratios);
        Ok(Self { setting, rows, ratios, gates })
    }

    /// Returns the time that the tensor without headers takes on one link, in seconds.
    pub fn bare_seconds(&self, rate: u64) -> f64 {
        bare_seconds(&self.setting, rate)
    }

    /// Returns the least load of the busiest link in any all-reduce by hosts alone, relative to the tensor.
    ///
    /// The load is 2 (n - 1) / n. A ring reaches it (Patarasuk and Yuan, 2009).
    pub fn ring_bound(&self) -> f64 {
        let workers = self.setting.workers.max(1) as f64;
        2.0 * (workers - 1.0) / workers
    }
}

fn bare_seconds(setting: &ComparisonSetting, rate: u64) -> f64 {
    setting.bytes as f64 * 8.0 / rate as f64
}

fn row(setting: &ComparisonSetting, case: Case, turns: &[&Turn]) -> Result<Row, StatisticsError> {
    let median = |runs: Vec<f64>| Ok(Summary::of(&runs)?.median);
    let seconds: Vec<f64> = turns.iter().flat_map(|turn| turn.seconds.iter().copied()).collect();
    let seconds = Summary::of(&seconds)?;
    let link_bytes = median(turns.iter().map(|turn| turn.link_bytes).collect())?;
    let processor_share = median(turns.iter().map(|turn| turn.processor_share).collect())?;
    let link_share = link_bytes * 8.0 / case.rate as f64 / seconds.median;
    Ok(Row {
        case,
        seconds,
        to_bare: seconds.median / bare_seconds(setting, case.rate),
        link_load: link_bytes / setting.bytes as f64,
        link_share,
        processor_share,
        limit: Limit::of(link_share, processor_share),
        turns: turns.iter().map(|turn| median(turn.seconds.clone())).collect::<Result<_, _>>()?,
    })
}

/// Returns the case of our fabric that a case is compared with.
///
/// Another contender is compared with our fabric over the same links. Our fabric with losses is compared with our
/// fabric without losses, over single frames if that was measured. And our fabric over single frames is
/// compared with our fabric over joined frames.
fn counterpart(rows: &[Row], case: &Case) -> Option<Case> {
    let ours = Case { contender: Contender::Ours, ..*case };
    if case.contender != Contender::Ours {
        return Some(ours);
    }
    let joined = Case { loss: 0.0, single_frames: false, ..ours };
    let single = Case { single_frames: true, ..joined };
    let candidates = if case.loss > 0.0 { [single, joined] } else { [joined; 2] };
    candidates.into_iter().find(|other| other != case && rows.iter().any(|row| row.case == *other))
}

/// Compares each case with its [counterpart](counterpart).
fn ratios(rows: &[Row]) -> Result<Vec<Ratios>, StatisticsError> {
    let mut ratios = Vec::new();
    for row in rows {
        let counterpart = counterpart(rows, &row.case);
        let Some(counterpart) = rows.iter().find(|other| Some(other.case) == counterpart) else { continue };
        let is_ours = row.case.contender == Contender::Ours;
        let (ours, other) = if is_ours { (row, counterpart) } else { (counterpart, row) };
        let ratio = Ratio::of_pairs(&ours.turns, &other.turns)?;
        ratios.push(Ratios { ours: ours.case, other: other.case, ratio });
    }
    Ok(ratios)
}
