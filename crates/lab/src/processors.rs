//! Assigns a processor to the programs of each node, if a lab pins its programs.
//!
//! Without pinning, and with more nodes than processors, the kernel runs a program on any free
//! processor. Then the packets of most hops come from another processor's cache, and waking the program
//! needs an interrupt to the other processor. If neighbours share a processor, most packets stay in its
//! cache.

use std::collections::HashMap;

use rustix::thread::{CpuSet, sched_getaffinity};
use tributary_topology::{NodeKey, Topology};

/// Returns the numbers of the processors on which this thread may run.
pub(crate) fn available() -> Vec<usize> {
    // The call cannot fail for the calling thread. If it did, programs would run on any processor.
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|number| set.is_set(*number)).collect()
}

/// Returns a processor for each node. All processors get about the same number of nodes, and neighbours
/// share one if possible. The map is empty if there are at least as many processors as nodes, or only
/// one.
pub(crate) fn assign(topology: &Topology, processors: &[usize]) -> HashMap<NodeKey, usize> {
    let nodes = in_depth(topology);
    if !(2..nodes.len()).contains(&processors.len()) {
        return HashMap::new();
    }
    let share = |place: usize| processors[place * processors.len() / nodes.len()];
    nodes.iter().enumerate().map(|(place, node)| (*node, share(place))).collect()
}

/// Returns all nodes in depth-first order, from the first server's switch, the root of the trees. The
/// hosts of a switch come after its other switches.
fn in_depth(topology: &Topology) -> Vec<NodeKey> {
    let servers = topology.servers();
    let root =
        servers.first().and_then(|server| topology.neighbours(*server).first().map(|switch| switch.node));
    let mut waiting: Vec<NodeKey> = topology.nodes().map(|(key, _)| key).collect();
    waiting.reverse();
    waiting.extend(root);
    let (mut order, mut seen) = (Vec::new(), vec![false; topology.nodes().count()]);
    while let Some(node) = waiting.pop() {
        if std::mem::replace(&mut seen[node.index()], true) {
            continue;
        }
        order.push(node);
        let mut next: Vec<NodeKey> = topology.neighbours(node).iter().map(|to| to.node).collect();
        let is_switch = |node: &NodeKey| topology.get(*node).is_some_and(|node| node.switch().is_some());
        // The node that is pushed last is popped first.
        next.reverse();
        next.sort_by_key(is_switch);
        waiting.extend(next);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tributary_topology::FatTree;

    use super::*;

    fn names(topology: &Topology, processors: &[usize], wanted: usize) -> Vec<String> {
        let assigned = assign(topology, processors);
        let on = topology.nodes().filter(|(key, _)| assigned.get(key) == Some(&wanted));
        on.map(|(_, node)| node.name.clone()).collect()
    }

    #[test]
    fn each_half_of_a_tree_has_a_processor() {
        let tree =
            Topology::parse(include_str!("../../../topologies/three-tier-8.toml"), "three-tier-8.toml")
                .unwrap();
        let [first, second] = [3, 5].map(|processor| names(&tree, &[3, 5], processor));
        assert_eq!(first, ["root", "mid0", "leaf0", "leaf1", "w0", "w1", "w2", "w3"]);
        assert_eq!(second, ["mid1", "leaf2", "leaf3", "ps", "w4", "w5", "w6", "w7"]);
    }

    #[test]
    fn programs_run_anywhere_where_there_is_nothing_to_choose() {
        let tree = Topology::parse(include_str!("../../../topologies/two-workers.toml"), "two-workers.toml")
            .unwrap();
        let nodes: Vec<usize> = (0..tree.nodes().count()).collect();
        for processors in [&[][..], &[0], &nodes] {
            assert!(assign(&tree, processors).is_empty());
        }
        assert!(!available().is_empty());
    }

    proptest! {
        #[test]
        fn all_nodes_have_a_processor_and_all_processors_as_many_nodes(half in 1_usize..4, processors in 2_usize..9) {
            let tree = FatTree::new(2 * half, half).unwrap().to_toml("1 Gbit/s");
            let tree = Topology::parse(&tree, "fat-tree.toml").unwrap();
            let assigned = assign(&tree, &(0..processors).collect::<Vec<_>>());
            let count = tree.nodes().count();
            prop_assert_eq!(assigned.len(), if processors < count { count } else { 0 });
            for processor in 0..processors.min(assigned.len()) {
                let nodes = assigned.values().filter(|of| **of == processor).count();
                prop_assert!((count / processors..=count.div_ceil(processors)).contains(&nodes));
            }
        }
    }
}
