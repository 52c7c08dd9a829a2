//! What the project demands of itself.

use serde::{Deserialize, Serialize};

use super::contender::{Case, Contender};
use super::report::{Ratios, Setting};

/// Where the demands are made.
const TOPOLOGY: &str = "three-tier-8";
const RATE: u64 = 50_000_000;
const BYTES: u64 = 8 << 20;

/// Ours to a contender's. The ring's own bound is 1.75 times the tensor's time on the link, ours is 1 time and the
/// headers.
const AGAINST: [(Contender, f64); 4] = [
    (Contender::Gloo, 0.65),
    (Contender::OpenMpi, 0.65),
    (Contender::OpenMpiRing, 0.65),
    (Contender::Server, 0.15),
];
/// Ours with losses to ours without.
const WITH_LOSS: [(f64, f64); 2] = [(0.001, 1.2), (0.01, 2.5)];

/// A limit that a ratio must not exceed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What it is about.
    pub name: String,
    /// The ratio of the medians.
    pub value: f64,
    /// The most that it may be.
    pub limit: f64,
    /// Whether it is.
    pub passed: bool,
}

/// Those that apply to what was measured: none on other topologies, rates and sizes.
pub(super) fn judge(setting: &Setting, ratios: &[Ratios]) -> Vec<Gate> {
    if setting.topology != TOPOLOGY || setting.bytes != BYTES {
        return Vec::new();
    }
    let at_rate = ratios.iter().filter(|ratios| ratios.ours.rate == RATE);
    at_rate.filter_map(|ratios| Some(gate(ratios, limit(&ratios.ours, &ratios.other)?))).collect()
}

fn limit(ours: &Case, other: &Case) -> Option<f64> {
    if other.contender == Contender::Ours {
        return WITH_LOSS.into_iter().find(|(loss, _)| *loss == ours.loss).map(|(_, limit)| limit);
    }
    AGAINST.into_iter().find(|(contender, _)| *contender == other.contender).map(|(_, limit)| limit)
}

fn gate(ratios: &Ratios, limit: f64) -> Gate {
    let value = ratios.ratio.of_medians;
    let other = match ratios.other.contender {
        Contender::Ours => "without losses".to_owned(),
        other => other.title().to_owned(),
    };
    Gate { name: format!("{} to {other}", ratios.ours), value, limit, passed: value <= limit }
}
