//! The limits that the project sets itself.

use serde::{Deserialize, Serialize};

use super::contender::{Case, Contender};
use super::ratios::Ratios;
use super::setting::{ComparisonSetting, Elements};

/// The topology for which the limits are set.
const TOPOLOGY: &str = "three-tier-8";
const BYTES: u64 = 8 << 20;

const MBIT: u64 = 1_000_000;
/// The most time of our all-reduce relative to all-reduces by hosts alone, by the links' MTU and rate.
///
/// A ring takes at least 1.75 times the time that the tensor takes on one link; our all-reduce takes this
/// time once, plus headers. At 1 Gbit/s the processors, which all nodes share, are the limit, and not the
/// links.
const AGAINST_HOSTS: [(u16, u64, f64); 8] = [
    (1500, 50 * MBIT, 0.60),
    (1500, 100 * MBIT, 0.65),
    (1500, 200 * MBIT, 0.65),
    (1500, 1000 * MBIT, 1.2),
    (9000, 50 * MBIT, 0.62),
    (9000, 100 * MBIT, 0.62),
    (9000, 200 * MBIT, 0.62),
    (9000, 1000 * MBIT, 0.70),
];
/// The lowest rate, at which our fabric is also compared with our server alone.
const SLOWEST: u64 = 50 * MBIT;
const AGAINST_SERVER: f64 = 0.15;
/// The most time of our fabric with losses relative to it without, by the loss and the rate.
const WITH_LOSS: [(f64, u64, f64); 4] =
    [(0.001, SLOWEST, 1.2), (0.01, SLOWEST, 2.5), (0.001, 100 * MBIT, 1.5), (0.001, 1000 * MBIT, 1.5)];
/// The loss at which our fabric must not take longer than all-reduces by hosts alone.
const LOSS_OF_ALL: f64 = 0.001;

/// A limit that a ratio must not exceed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The name of the comparison.
    pub name: String,
    /// The ratio of the medians.
    pub value: f64,
    /// The most that the ratio may be.
    pub limit: f64,
    /// True if the ratio is within the limit.
    pub passed: bool,
}

/// Returns the gates that apply to the setting. Other topologies, rates, sizes and types have none.
pub(super) fn judge(setting: &ComparisonSetting, ratios: &[Ratios]) -> Vec<Gate> {
    if setting.topology != TOPOLOGY || setting.bytes != BYTES || setting.elements != Elements::F32 {
        return Vec::new();
    }
    let judged = |ratios: &Ratios| Some(gate(ratios, limit(setting.mtu, &ratios.ours, &ratios.other)?));
    ratios.iter().filter_map(judged).collect()
}

fn limit(mtu: u16, ours: &Case, other: &Case) -> Option<f64> {
    match other.contender {
        Contender::Gloo | Contender::OpenMpi | Contender::OpenMpiRing if other.loss > 0.0 => {
            let is_checked = other.loss == LOSS_OF_ALL && [100 * MBIT, 1000 * MBIT].contains(&ours.rate);
            is_checked.then_some(1.0)
        }
        Contender::Gloo | Contender::OpenMpi | Contender::OpenMpiRing => {
            let at = (mtu, ours.rate);
            AGAINST_HOSTS.into_iter().find(|(mtu, rate, _)| (*mtu, *rate) == at).map(|(.., limit)| limit)
        }
        Contender::Server if ours.rate == SLOWEST => Some(AGAINST_SERVER),
        Contender::Ours => {
            let at = (ours.loss, ours.rate);
            WITH_LOSS.into_iter().find(|(loss, rate, _)| (*loss, *rate) == at).map(|(.., limit)| limit)
        }
        // The gain of several hops over one hop depends only on the tree.
        Contender::Leaf | Contender::Server => None,
    }
}

fn gate(ratios: &Ratios, limit: f64) -> Gate {
    let value = ratios.ratio.of_medians;
    let other = match ratios.other.contender {
        Contender::Ours => "without losses".to_owned(),
        other => other.title().to_owned(),
    };
    let rate = ratios.ours.rate / MBIT;
    Gate { name: format!("{rate} Mbit/s: {} / {other}", ratios.ours), value, limit, passed: value <= limit }
}
