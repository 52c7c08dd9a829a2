//! What came of a comparison.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::contender::{Case, Contender};
use super::gates::{self, Gate};
use super::limit::Limit;
use super::machine::Machine;
use crate::statistics::{Ratio, StatisticsError, Summary};

/// What one contender did when it had its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// How long each all-reduce took its slowest rank; at least one.
    pub seconds: Vec<f64>,
    /// What the busiest direction of a link carried for each all-reduce, with headers and what was sent again.
    pub link_bytes: f64,
    /// Share of all processors' time that was not idle meanwhile.
    pub processor_share: f64,
}

/// What was compared, and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Unix time.
    pub began: u64,
    /// The topology's name.
    pub topology: String,
    /// How many ranks reduced.
    pub workers: usize,
    /// Of the tensor.
    pub bytes: u64,
    /// The longest packet that all links carry, in bytes.
    pub mtu: u16,
    /// Turns of each contender.
    pub rounds: u32,
    /// All-reduces in each turn.
    pub iterations: u32,
    /// The machine that all nodes shared.
    pub machine: Machine,
    /// What each contender is exactly.
    pub versions: BTreeMap<Contender, String>,
    /// Who could not be measured.
    pub skipped: Vec<Skipped>,
}

/// A contender that could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Which.
    pub contender: Contender,
    /// Why not.
    pub reason: String,
    /// The command that installs it.
    pub install: String,
}

/// All turns of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    #[serde(flatten)]
    pub case: Case,
    /// Of each all-reduce.
    pub seconds: Summary,
    /// The median in units of the time that the bare tensor takes on one link.
    pub to_bare: f64,
    /// What the busiest direction of a link carried for each all-reduce, median, in units of the tensor.
    pub link_load: f64,
    /// Share of the median time that this link was sending.
    pub link_share: f64,
    /// Share of all processors' time that was not idle, median.
    pub processor_share: f64,
    /// What limits.
    pub limit: Limit,
    /// The median of each turn, in their order, seconds.
    pub turns: Vec<f64>,
}

/// This project's all-reduce in units of another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// This project's.
    pub ours: Case,
    /// What it is compared with: another contender, or itself without losses.
    pub other: Case,
    /// Time to time. The pairs of its spread are turns of the same round.
    pub ratio: Ratio,
}

/// What came of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What was compared.
    #[serde(flatten)]
    pub setting: Setting,
    /// In the order in which they had their turns.
    pub rows: Vec<Row>,
    /// In the order of the rows.
    pub ratios: Vec<Ratios>,
    /// The limits that this project sets itself, as far as they apply to what was measured.
    pub gates: Vec<Gate>,
}

impl Report {
    /// From all turns, each with its case, in the order in which they were.
    ///
    /// # Errors
    /// A turn has no all-reduce, or one that took no time.
    pub fn of(setting: Setting, turns: &[(Case, Turn)]) -> Result<Self, StatisticsError> {
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

    /// How long the bare tensor takes on one link, seconds.
    pub fn bare_seconds(&self, rate: u64) -> f64 {
        bare_seconds(&self.setting, rate)
    }

    /// The least that any all-reduce has to send on some link if nothing aggregates in the network, in units of the
    /// tensor: 2 (n - 1) / n, which a ring reaches (Patarasuk and Yuan, 2009).
    pub fn ring_bound(&self) -> f64 {
        let workers = self.setting.workers.max(1) as f64;
        2.0 * (workers - 1.0) / workers
    }
}

fn bare_seconds(setting: &Setting, rate: u64) -> f64 {
    setting.bytes as f64 * 8.0 / rate as f64
}

fn row(setting: &Setting, case: Case, turns: &[&Turn]) -> Result<Row, StatisticsError> {
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

/// Ours without losses beside each other contender, and ours with losses beside ours without, at each rate.
fn ratios(rows: &[Row]) -> Result<Vec<Ratios>, StatisticsError> {
    let mut ratios = Vec::new();
    for row in rows {
        let ours = Case { loss: 0.0, contender: Contender::Ours, ..row.case };
        let Some(lossless) = rows.iter().find(|other| other.case == ours && other.case != row.case) else {
            continue;
        };
        let (ours, other) =
            if row.case.contender == Contender::Ours { (row, lossless) } else { (lossless, row) };
        let ratio = Ratio::of_pairs(&ours.turns, &other.turns)?;
        ratios.push(Ratios { ours: ours.case, other: other.case, ratio });
    }
    Ok(ratios)
}
