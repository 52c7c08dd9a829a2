//! Chooses the server and the workers with which a job can continue over the live fabric.

use std::collections::{BTreeSet, HashMap};

use tributary_topology::{NodeKey, Role, Topology};
use tributary_wire::SliceWidth;

use crate::candidates::Terrain;
use crate::error::PlanError;
use crate::fabric::{Fabric, FabricState};
use crate::plain;
use crate::request::{JobRequest, Member};
use crate::search::{check_workers, is_plannable};

/// A server, and the workers that the job loses with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The server's host.
    pub server: NodeKey,
    /// The workers that cannot continue, by rank. A plan exists for all other workers.
    pub left_out: Vec<Member>,
}

/// Returns the hosts that can send slices of this width to `server` and get results back, over the live
/// fabric.
///
/// A plain switch forwards a host's frames only along one path. The result includes the server's own host if it could
/// also be a worker, which needs a switch that runs our program. The result is empty if `server` is not a host, or is
/// dead. This function does not check the length of hop stacks.
pub fn reachable(
    topology: &Topology,
    state: &FabricState,
    server: NodeKey,
    width: SliceWidth,
) -> BTreeSet<NodeKey> {
    let fabric = Fabric::new(topology, state, width);
    let reach = Reach::new(&fabric);
    let hosts = topology.hosts().map(|(host, ..)| host);
    hosts.filter(|&host| reach.has_way(host, server)).collect()
}

/// Chooses the job's server among `servers`: the server that keeps most of the job's workers.
/// On a tie, the present server (`job.server`) wins. Then come hosts with the role of a server in the topology, then
/// workers of the job by rank, then other hosts in the topology's order.
///
/// `job.workers` are all workers that should take part, dead or alive. The present server need not be in `servers`, and
/// need not be alive.
///
/// # Errors
/// [`PlanError::NoServer`] if no host of `servers` would keep any worker; other errors if the request is invalid on
/// this topology.
pub fn choose(
    topology: &Topology,
    state: &FabricState,
    job: &JobRequest,
    servers: &[NodeKey],
) -> Result<Chosen, PlanError> {
    check_workers(topology, job)?;
    let fabric = Fabric::new(topology, state, job.width);
    let (reach, terrain) = (Reach::new(&fabric), Terrain::new(&fabric, job));
    let mut best: Option<(NodeKey, Vec<Member>)> = None;
    for server in by_preference(topology, job, servers) {
        let most = best.as_ref().map_or(0, |(_, kept)| kept.len());
        if most == job.workers.len() {
            break;
        }
        let near = job.workers.iter().copied().filter(|worker| reach.has_way(worker.host, server));
        let near: Vec<_> = near.collect();
        if near.len() <= most {
            continue;
        }
        let kept = plannable(&terrain, &JobRequest { server, workers: near, ..job.clone() });
        if kept.len() > most {
            best = Some((server, kept));
        }
    }
    let (server, kept) = best.ok_or_else(|| PlanError::NoServer {
        candidates: servers.iter().filter_map(|&key| Some(topology.get(key)?.name.clone())).collect(),
    })?;
    let left_out = job.workers.iter().copied().filter(|worker| !kept.contains(worker)).collect();
    Ok(Chosen { server, left_out })
}

/// Returns the hosts among `servers`, in the order in which they win a tie.
fn by_preference(topology: &Topology, job: &JobRequest, servers: &[NodeKey]) -> Vec<NodeKey> {
    let mut hosts: Vec<_> = servers
        .iter()
        .filter_map(|&key| Some((key, topology.get(key)?.host()?.role == Some(Role::Server))))
        .collect();
    hosts.sort_by_key(|&(key, is_server)| {
        let rank = job.workers.iter().find(|worker| worker.host == key).map(|worker| worker.rank);
        (key != job.server, !is_server, rank.is_none(), rank, key)
    });
    hosts.dedup();
    hosts.into_iter().map(|(key, _)| key).collect()
}

/// Returns workers, added greedily in the order of ranks, for which together a plan exists.
/// Each worker of `job` must reach the server alone.
fn plannable(terrain: &Terrain<'_>, job: &JobRequest) -> Vec<Member> {
    if is_plannable(terrain, job) {
        return job.workers.clone();
    }
    // Paths that work alone need not work together. One of them may be too long, plain switches may need two ports of
    // one switch, or more streams may remain than the server can distinguish.
    let mut kept = JobRequest { workers: Vec::new(), ..job.clone() };
    for &worker in &job.workers {
        kept.workers.push(worker);
        if !is_plannable(terrain, &kept) {
            kept.workers.pop();
        }
    }
    kept.workers
}

/// The hosts that reach each other over live nodes and links.
struct Reach<'a> {
    fabric: &'a Fabric<'a>,
    /// For each node, the number of its connected component.
    pieces: Vec<usize>,
    /// The components with plain switches, in which not every path is open to every host.
    with_plain: BTreeSet<usize>,
}

impl<'a> Reach<'a> {
    fn new(fabric: &'a Fabric<'a>) -> Self {
        let pieces = vec![usize::MAX; fabric.topology.graph().node_count()];
        let mut reach = Self { fabric, pieces, with_plain: BTreeSet::new() };
        let alive = fabric.topology.nodes().map(|(node, _)| node).filter(|&node| fabric.is_live(node));
        alive.for_each(|node| reach.spread(node));
        reach
    }

    /// Assigns the number of `from` to all nodes of its component that have no number yet.
    fn spread(&mut self, from: NodeKey) {
        let mut queue = vec![from];
        while let Some(node) = queue.pop() {
            match self.pieces.get_mut(node.index()) {
                Some(piece) if *piece == usize::MAX => *piece = from.index(),
                _ => continue,
            }
            if self.fabric.is_plain(node) {
                self.with_plain.insert(from.index());
            }
            queue.extend(self.fabric.neighbours(node).iter().map(|via| via.node));
        }
    }

    /// Returns true if the host can send to the server and get results back.
    fn has_way(&self, host: NodeKey, server: NodeKey) -> bool {
        if !self.is_live_host(host) || !self.is_live_host(server) {
            return false;
        }
        let [piece, of_server] = [host, server].map(|key| self.pieces.get(key.index()));
        let linked = piece == of_server && !self.fabric.neighbours(host).is_empty();
        linked
            && (piece.is_some_and(|piece| !self.with_plain.contains(piece))
                || plain::way(self.fabric, host, server, &HashMap::new()).is_some())
    }

    fn is_live_host(&self, key: NodeKey) -> bool {
        self.fabric.is_live(key) && self.fabric.topology.get(key).is_some_and(|node| node.host().is_some())
    }
}
