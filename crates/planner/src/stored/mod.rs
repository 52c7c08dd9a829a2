//! Plans in the form in which they are stored on disk.
//! They use names, because keys are valid only for one reading of one topology file.
//!
//! A stored plan has the values that members and switches of a running job use, above all the hop stacks. So a later
//! version of the planner restores the same values. It computes the rest again: table entries, bytes, and the path
//! down.

mod error;
mod restore;

use serde::{Deserialize, Serialize};
use tributary_topology::LinkDirection;
use tributary_wire::{Downlink, SliceWidth};

pub use error::StoredPlanError;

use crate::plan::{HopEntry, Plan};
use crate::request::{Aggregation, DownlinkName};
use crate::traffic::LinkTraffic;

/// A [`Plan`] in a form that can be written to disk in any serde format.
///
/// It does not contain a version, so the caller must store one with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPlan {
    aggregation: Aggregation,
    #[serde(with = "DownlinkName")]
    downlink: Downlink,
    /// The number of values in a slice.
    /// Earlier versions did not store it, because it was always the default.
    #[serde(default = "ethernet")]
    values_per_slice: usize,
    window: u32,
    gradient_bytes: u64,
    /// The server's host.
    server: String,
    workers: Vec<StoredWorker>,
    /// Every link of the tree, once.
    links: Vec<StoredLink>,
    ring: StoredCost,
    parameter_server: StoredCost,
    notes: Vec<String>,
}

fn ethernet() -> usize {
    SliceWidth::ETHERNET.values()
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredWorker {
    rank: u16,
    host: String,
    /// The worker's hop stack for GRADIENT.
    up: Vec<HopEntry>,
}

/// A link of the tree. The end `to` is nearer to the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredLink {
    from: String,
    from_port: u16,
    to: String,
    to_port: u16,
    /// The load of the link when the plan was made, towards the server and back, bit/s.
    load: [u64; 2],
}

/// The expected cost of another kind of all-reduce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCost {
    bytes: u64,
    /// The bits of the `f64`, because text formats round numbers.
    seconds: u64,
}

impl From<&Plan> for StoredPlan {
    fn from(plan: &Plan) -> Self {
        let links = &plan.traffic.links;
        let worker = |worker: &crate::WorkerRoute| StoredWorker {
            rank: worker.rank,
            host: worker.name.clone(),
            up: worker.up.iter().map(HopEntry::from).collect(),
        };
        let link = |up: &LinkTraffic| {
            let back = LinkDirection { sender: 1 - up.direction.sender, ..up.direction };
            let back =
                links.binary_search_by_key(&back, |link| link.direction).ok().map(|place| &links[place]);
            StoredLink {
                from: up.from.clone(),
                from_port: up.from_port,
                to: up.to.clone(),
                to_port: up.to_port,
                load: [up.load, back.map_or(0, |back| back.load)],
            }
        };
        let cost = |bytes, seconds: f64| StoredCost { bytes, seconds: seconds.to_bits() };
        let compared = &plan.comparison;
        Self {
            aggregation: plan.aggregation,
            downlink: plan.downlink,
            values_per_slice: plan.width.values(),
            window: plan.window,
            gradient_bytes: plan.gradient_bytes,
            server: plan.server.name.clone(),
            workers: plan.workers.iter().map(worker).collect(),
            links: links.iter().filter(|link| link.towards_server).map(link).collect(),
            ring: cost(compared.ring_bytes, compared.ring_seconds),
            parameter_server: cost(compared.parameter_server_bytes, compared.parameter_server_seconds),
            notes: plan.notes.clone(),
        }
    }
}
