//! Paths and trees that plain switches support. Plain switches forward by MAC address.

use std::collections::{HashMap, VecDeque};

use tributary_topology::{Neighbour, NodeKey};

use crate::fabric::{Fabric, forwards_along};
use crate::tree::Tree;

/// Joins workers one by one to a tree, each over the fewest switches.
///
/// Every plain switch on a path must forward along it in both directions. `None` if a worker has no such path that is
/// compatible with the paths of the workers before it. For a single worker, this means that it has no path at all.
///
/// It ignores rates and loads. It is for fabrics in which no tree that considers them suits the plain switches.
pub(crate) fn tree(fabric: &Fabric<'_>, workers: &[NodeKey], server: NodeKey) -> Option<Tree> {
    let mut parents = HashMap::new();
    for &worker in workers {
        parents.extend(way(fabric, worker, server, &parents)?);
    }
    Tree::new(server, workers, |node| parents.get(&node).copied())
}

/// Returns the path from a worker to the server over the fewest switches: each node with its next step.
/// Every plain switch on it forwards along it in both directions. From a switch in `parents`, the path continues with
/// the step given there.
///
/// A plain switch has one port towards each of the two hosts, so it is enough to visit each node once.
pub(crate) fn way(
    fabric: &Fabric<'_>,
    worker: NodeKey,
    server: NodeKey,
    parents: &HashMap<NodeKey, Neighbour>,
) -> Option<Vec<(NodeKey, Neighbour)>> {
    // For each visited switch, the node before it, and the step from that node.
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
