//! Plain switches, which forward by MAC address: whose frames they take along, and which ways that leaves.

use std::collections::{HashMap, VecDeque};

use tributary_topology::{Forwarding, LinkKey, Neighbour, NodeKey};

use crate::fabric::Fabric;
use crate::tree::Tree;

/// Whether a plain switch takes the frames between a worker and the server along: in by the link that the worker is
/// behind and on by the one that the server is behind, and back. It never sends a frame out of the port that it came
/// in by.
pub(crate) fn carries(
    forwarding: &Forwarding,
    plain: NodeKey,
    [worker, server]: [NodeKey; 2],
    [below, up]: [LinkKey; 2],
) -> bool {
    let by = |to, link| forwarding.next(plain, to).is_some_and(|via| via.link == link);
    below != up && by(worker, below) && by(server, up)
}

/// Joins workers one by one to a tree, each by the way over the fewest switches that every plain switch on it takes, both
/// there and back. `None` when there is no such way beside those of the workers before it; for one worker alone this
/// means that there is none at all.
///
/// It looks at neither rates nor loads: it is for where no tree that does comes by the plain switches.
pub(crate) fn tree(fabric: &Fabric<'_>, workers: &[NodeKey], server: NodeKey) -> Option<Tree> {
    let mut parents = HashMap::new();
    for &worker in workers {
        parents.extend(way(fabric, worker, server, &parents)?);
    }
    Tree::new(server, workers, |node| parents.get(&node).copied())
}

/// The way over the fewest switches from a worker to the server that every plain switch on it takes, both there and
/// back: each node, and how it goes on from there. From a switch of `parents` it goes on as that says.
///
/// A plain switch has one way in and one way out for the two, so it is enough to come to each node once.
pub(crate) fn way(
    fabric: &Fabric<'_>,
    worker: NodeKey,
    server: NodeKey,
    parents: &HashMap<NodeKey, Neighbour>,
) -> Option<Vec<(NodeKey, Neighbour)>> {
    // Of each switch that was come to: where from, and how.
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
            !fabric.is_plain(at) || carries(fabric.forwarding(), at, [worker, server], links)
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
