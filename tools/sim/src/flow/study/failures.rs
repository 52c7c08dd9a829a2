//! One job while a switch dies for some seconds.

use tributary_topology::NodeKey;

use super::congestion::HOSTS;
use super::settings::{Point, Settings};
use crate::flow::engine::simulate;
use crate::flow::error::FlowError;
use crate::flow::outage::{Down, Outage};
use crate::flow::outcome::{FlowOutcome, JobOutcome};
use crate::flow::setup::Setup;

/// The tiers, by their names in the topology file and in words.
pub(super) const TIERS: [(&str, &str); 3] = [("core", "core"), ("agg", "aggregation"), ("edge", "edge")];

/// The time at which the switch dies, in seconds. It is several iterations after the start.
const FROM: f64 = 2.0;
/// The duration of the outage, in seconds.
const SECONDS: f64 = 3.0;

pub(super) fn measure(settings: &Settings, place: usize) -> Result<Point, FlowError> {
    let (prefix, tier) = TIERS.get(place).copied().unwrap_or(TIERS[0]);
    let topology = settings.network(HOSTS.max(settings.hosts_of_job()), settings.oversubscription, 1)?;
    // The iterations suffice for the job to run until the switch is back.
    let iterations = ((FROM + 2.0 * SECONDS) / settings.compute.seconds.max(0.01)).ceil() as u32;
    let setup = |method, seed| {
        let jobs = settings.jobs(&topology, 1, method, seed);
        Setup { iterations, ..settings.setup(&topology, jobs, seed) }
    };
    let counts = |calm: &Setup<'_>, outcome: &FlowOutcome| {
        let Some(victim) = busiest(calm, outcome, prefix) else { return Ok(0.0) };
        let outage = Outage { what: Down::Node(victim), from: FROM, until: FROM + SECONDS };
        let hit = simulate(&Setup { outages: vec![outage], ..calm.clone() })?;
        let all = |outcome: &FlowOutcome| outcome.jobs.iter().map(JobOutcome::seconds).sum::<f64>();
        Ok(all(&hit) - all(outcome))
    };
    settings.compare(tier.to_owned(), &settings.methods(), setup, counts)
}

/// Returns the switch of a tier that carried most bytes.
fn busiest(setup: &Setup<'_>, outcome: &FlowOutcome, prefix: &str) -> Option<NodeKey> {
    let of_tier = setup.topology.switches().filter(|(_, node, _)| node.name.starts_with(prefix));
    let through = of_tier.map(|(key, ..)| (outcome.through(setup.topology, key), key));
    through.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, key)| key)
}
