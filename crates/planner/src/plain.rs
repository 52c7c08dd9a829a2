//! Plain switches, which forward by MAC address: whose frames they take along, and
//! which ways remain for trees.

use std::collections::{HashMap, VecDeque};

use tributary_topology::{Neighbour, NodeKey};

use crate::fabric::{Fabric, forwards_along};
use crate::tree::Tree;

/// Joins workers one by one to a tree, each over the fewest switches.
///
/// Every plain switch on a path must forward along it in both directions. `None` if a worker has no such path beside
/// the paths of the workers before it; for a single worker this means that it has no path at all.
///
/// It ignores rates and loads: it is for fabrics where no tree that regards them suits the plain switches.
pub(crate) fn tree(fabric: &Fabric<'_>, workers: &[NodeKey], server: NodeKey) -> Option<Tree> {
    let mut parents = HashMap::new();
    for &worker in workers {
        parents.extend(way(fabric, worker, server, &parents)?);
    }
    Tree::new(server, workers, |node| parents.get(&node).copied())
}

/// The way from a worker to the server over the fewest switches such that every plain
/// switch on it forwards along it in both directions: each node with its step onwards. From a switch in `parents` the
/// way goes on as given there.
///
/// A plain switch has one way in and one way out for the two hosts, so it is enough to visit each node once.
pub(crate) fn way(
    fabric: &Fabric<'_>,
    worker: NodeKey,
    server: NodeKey,
    parents: &HashMap<NodeKey, Neighbour>,
) -> Option<Vec<(NodeKey, Neighbour)>> {
    // For each visited switch: the node before it, and the step from there.
    let mut steps: HashMap<NodeKey, (NodeKey, Neighbour)> = HashMap::new();
    let mut queue: VecDeque<_> = fabric.neighbours(worker).iter().map(|&step| (worker, step)).collect();
    while let Some((from, step)) = queue.pop_front() {
        if step.node == server {
            let before = |(node, _): &(NodeKey, Neighbour)| steps.get(node).copied();
            return Some(std::iter::successors(Some((from, step)), before).collect());
        }
        let at = step.node;
        let takes = |via: &Neighbour| {
            let links = [step.link, via.link];
            !fabric.is_plain(at) || forwards_along(fabric.forwarding(), at, [worker, server], links)
        };
        let fixed = parents.get(&at).map(std::slice::from_ref);
        let mut onwards =
            fixed.unwrap_or_else(|| fabric.neighbours(at)).iter().filter(|via| takes(via)).peekable();
        if !fabric.is_host(at) && !steps.contains_key(&at) && onwards.peek().is_some() {
            steps.insert(at, (from, step));
            queue.extend(onwards.map(|&via| (at, via)));
        }
    }
    None
}
