//! Synchronisation without programmable switches: parameter server, ring, double binary tree.

use rand_chacha::ChaCha8Rng;
use tributary_topology::NodeKey;

use super::error::FlowError;
use super::job::{Job, Method};
use super::network::{Network, direction};
use super::route::{Routes, Way};
use super::share::Stream;

/// Length of a TCP frame over Ethernet with an MTU of 1,500, without preamble and FCS.
///
/// The headers are Ethernet (14), IPv4 (20) and TCP (20) with timestamps (12). The planner counts this
/// project's frames in the same way.
const FRAME_BYTES: usize = 1_514;
const PAYLOAD_BYTES: usize = 1_448;
const OVERHEAD: f64 = FRAME_BYTES as f64 / PAYLOAD_BYTES as f64;

/// Connections that move at the same rate.
#[derive(Debug, Clone)]
struct Bundle {
    /// Bytes of each connection, headers included.
    bytes: f64,
    connections: Vec<Way>,
}

/// A job's connections. Each uses its own path while that path is alive, and another path otherwise.
#[derive(Debug, Clone)]
pub(super) struct Connections {
    bundles: Vec<Bundle>,
    /// The latency of one synchronisation without its bytes, in units of the paths' mean latency.
    turns: f64,
}

/// A pair of workers, by their ranks: sender and receiver.
type Edge = (usize, usize);
/// A pair of hosts: sender and receiver.
type Pair = (NodeKey, NodeKey);

impl Connections {
    /// Makes the connections of a job, with paths drawn from `rng`.
    ///
    /// # Errors
    /// [`FlowError::Apart`].
    pub(super) fn of(job: &Job, network: &Network<'_>, rng: &mut ChaCha8Rng) -> Result<Self, FlowError> {
        let gradient = job.gradient_bytes as f64 * OVERHEAD;
        let count = job.workers.len();
        let between = |edges: Vec<Edge>| {
            let pairs =
                edges.into_iter().filter_map(|(a, b)| Some((*job.workers.get(a)?, *job.workers.get(b)?)));
            pairs.collect::<Vec<_>>()
        };
        let (bundles, turns): (Vec<(f64, Vec<Pair>)>, f64) = match job.method {
            Method::Ring => {
                // In each step, a rank sends 1 / N of the gradient to the next rank and waits for the
                // previous rank's part.
                let steps = 2 * (count - 1);
                let share = steps as f64 / count as f64;
                (vec![(share * gradient, between(ring(count)))], steps as f64)
            }
            Method::DoubleTree => {
                let trees = [double_tree(count, false), double_tree(count, true)];
                let depth = trees.iter().map(|tree| depth(tree)).max().unwrap_or(0);
                let both_ways = |tree: &Vec<Edge>| tree.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
                let bundles = trees.iter().map(|tree| (gradient / 2.0, between(both_ways(tree))));
                (bundles.collect(), 2.0 * depth as f64)
            }
            Method::ParameterServer { .. } | Method::Fabric { .. } | Method::Leaf { .. } => {
                let servers = &job.servers[..job.method.servers().min(job.servers.len())];
                let part = gradient / servers.len().max(1) as f64;
                let pairs = job.workers.iter().flat_map(|&worker| {
                    servers.iter().flat_map(move |&server| [(worker, server), (server, worker)])
                });
                (pairs.map(|pair| (part, vec![pair])).collect(), 2.0)
            }
        };
        let mut routes = Routes::new(network.topology, &network.dead);
        let mut connect = |pair: Pair| Way::draw(pair, &mut routes, rng);
        let bundles = bundles.into_iter().map(|(bytes, pairs)| {
            let connections = pairs.into_iter().map(&mut connect).collect::<Result<_, _>>()?;
            Ok(Bundle { bytes, connections })
        });
        Ok(Self { bundles: bundles.collect::<Result<_, _>>()?, turns })
    }

    /// Returns the streams of one synchronisation.
    pub(super) fn streams(&self) -> Vec<Stream> {
        self.bundles.iter().map(Bundle::stream).collect()
    }

    /// Returns the latency of one synchronisation without the time for its bytes, in seconds.
    pub(super) fn latency(&self, network: &Network<'_>) -> f64 {
        let ways = || self.bundles.iter().flat_map(|bundle| &bundle.connections).map(Way::links);
        let all: f64 =
            ways().map(|way| network.latency(way.iter().map(|&at| direction(at).link), FRAME_BYTES)).sum();
        self.turns * all / ways().count().max(1) as f64
    }

    /// Moves connections to other paths around dead parts, and back when their own paths are alive.
    ///
    /// A connection without another path stays. Returns true if anything changed.
    pub(super) fn reroute(&mut self, network: &Network<'_>, rng: &mut ChaCha8Rng) -> bool {
        let mut routes = Routes::new(network.topology, &network.dead);
        let mut has_changed = false;
        for way in self.bundles.iter_mut().flat_map(|bundle| &mut bundle.connections) {
            has_changed |= way.reroute(network, &mut routes, rng);
        }
        has_changed
    }
}

impl Bundle {
    fn stream(&self) -> Stream {
        let mut links: Vec<usize> = self.connections.iter().flat_map(Way::links).copied().collect();
        links.sort_unstable();
        let uses = links.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as f64));
        Stream { bytes: self.bytes, limit: f64::INFINITY, uses: uses.collect() }
    }
}

/// Returns the edges from each rank to the next.
fn ring(count: usize) -> Vec<Edge> {
    (0..count).map(|rank| (rank, (rank + 1) % count)).collect()
}

/// Returns one of the two trees, as edges from each rank to its parent.
///
/// The leaves of one tree are inner nodes of the other. The second tree is the first tree with the ranks
/// reversed or, for an odd number of ranks, shifted by one.
fn double_tree(count: usize, second: bool) -> Vec<Edge> {
    let placed = |rank: usize| match (second, count.is_multiple_of(2)) {
        (false, _) => rank,
        (true, true) => count - 1 - rank,
        (true, false) => (rank + 1) % count,
    };
    (1..count).map(|rank| (placed(rank), placed(parent(rank, count)))).collect()
}

/// Returns the parent of a rank in a binary tree.
///
/// Every rank lies between its children, and rank 0 is the root.
fn parent(rank: usize, count: usize) -> usize {
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | (bit << 1);
    if above < count { above } else { rank ^ bit }
}

/// Returns the greatest number of steps from a rank to the root.
fn depth(tree: &[Edge]) -> usize {
    let above: std::collections::HashMap<usize, usize> = tree.iter().copied().collect();
    let steps = |&(rank, _): &Edge| std::iter::successors(above.get(&rank), |up| above.get(*up)).count();
    tree.iter().map(steps).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn both_trees_reach_everyone_and_nobody_sends_more_than_the_gradient_twice() {
        for count in 2..70 {
            let mut sent: BTreeMap<usize, f64> = BTreeMap::new();
            for tree in [double_tree(count, false), double_tree(count, true)] {
                assert_eq!(tree.len(), count - 1);
                // Every rank reaches the root within this number of steps, so the tree has no cycle.
                assert!(depth(&tree) <= 1 + count.ilog2() as usize, "{count}: {}", depth(&tree));
                for (below, above) in tree {
                    *sent.entry(below).or_default() += 0.5;
                    *sent.entry(above).or_default() += 0.5;
                }
            }
            assert!(sent.values().all(|&share| share <= 2.0), "{count}: {sent:?}");
        }
    }
}
