//! Builds the API's answers about links, and about the trees of jobs on them.

use tributary_api::v1;
use tributary_topology::{End, Link, LinkKey, Topology};

use crate::jobs::Job;
use crate::liveness::Life;
use crate::manager::Manager;

/// Returns the topology's links, in the order of the topology.
pub(crate) fn links(manager: &Manager) -> Vec<v1::Link> {
    let (state, topology) = (manager.state(), manager.topology());
    let link_state = |key: LinkKey| match state.health.of_link(key) {
        Life::Dead => v1::LinkState::Dead,
        Life::Silent => v1::LinkState::Silent,
        Life::ShortOfMtu(_) => v1::LinkState::ShortOfMtu,
        Life::Alive => v1::LinkState::Alive,
    };
    let of_link = |(key, link): (LinkKey, &Link)| {
        let [first, second] = link.ends.map(|end| Some(link_end(&topology, end)));
        v1::Link { first, second, rate: link.rate, state: link_state(key).into() }
    };
    topology.links().map(of_link).collect()
}

fn link_end(topology: &Topology, End { node, port }: End) -> v1::LinkEnd {
    v1::LinkEnd { node: topology[node].name.clone(), port: port.into() }
}

/// Returns the tree of a job's present generation.
pub(crate) fn tree(topology: &Topology, job: &Job) -> v1::GetTreeResponse {
    let generation = job.record.generation();
    let plan = &generation.plan;
    let link = |child: &str, port: u16, parent: &str| v1::TreeLink {
        child: Some(v1::LinkEnd { node: child.to_owned(), port: port.into() }),
        parent: parent.to_owned(),
    };
    // A host has one port.
    let first = |worker: &tributary_planner::WorkerRoute| {
        let via = topology.neighbours(worker.key).into_iter().next()?;
        Some(link(&worker.name, via.port, &topology[via.node].name))
    };
    let workers = plan.workers.iter().filter_map(first);
    let switches = plan.switches.iter().map(|role| link(&role.name, role.up.port, &role.up.name));
    v1::GetTreeResponse { generation: generation.number, links: workers.chain(switches).collect() }
}
