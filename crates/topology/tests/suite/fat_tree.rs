//! Tests of the shape of fat trees.

use std::collections::{BTreeMap, BTreeSet};

use tributary_topology::{FatTree, FatTreeError, NodeKey, Topology};

fn topology(ports: usize, workers: usize) -> Topology {
    Topology::parse(&FatTree::new(ports, workers).unwrap().to_toml("10 Gbit/s"), "fat-tree.toml").unwrap()
}

#[test]
fn switches_have_all_their_ports_in_use() {
    for ports in [2, 4, 6, 8] {
        let tree = FatTree::new(ports, 1).unwrap();
        let topology = topology(ports, 1);
        assert_eq!((topology.switches().count(), topology.hosts().count()), (tree.switches(), tree.hosts()));
        assert_eq!((tree.switches(), tree.hosts()), (5 * ports * ports / 4, ports.pow(3) / 4));
        assert_eq!(topology.links().count(), 3 * tree.hosts());
        assert!(topology.links().all(|(_, link)| link.rate == 10_000_000_000));
        assert!(topology.switches().all(|(key, ..)| topology.neighbours(key).len() == ports));
    }
}

#[test]
fn every_core_is_linked_to_each_pod_once() {
    let topology = topology(6, 5);
    for (core, node, _) in topology.switches().filter(|(_, node, _)| node.name.starts_with("core")) {
        let pods: BTreeSet<String> = topology
            .neighbours(core)
            .iter()
            .map(|there| topology[there.node].name.split('-').next().unwrap().to_owned())
            .collect();
        assert_eq!(pods.len(), 6, "{}", node.name);
    }
}

#[test]
fn workers_are_spread_over_the_hosts_beside_the_server() {
    for workers in [1, 2, 7, 40, 53] {
        let topology = topology(6, workers);
        assert_eq!((topology.workers().len(), topology.servers().len()), (workers, 1));
        let names: Vec<_> = topology.workers().iter().map(|&key| topology[key].name.clone()).collect();
        assert_eq!(names, (0..workers).map(|rank| format!("w{rank}")).collect::<Vec<_>>());
        let mut of_edge: BTreeMap<NodeKey, usize> = BTreeMap::new();
        for worker in topology.workers() {
            *of_edge.entry(topology.neighbours(worker)[0].node).or_default() += 1;
        }
        assert!(of_edge.values().all(|&count| count <= workers.div_ceil(18) + 1), "{of_edge:?}");
    }
}

#[test]
fn links_between_switches_can_have_another_rate() {
    let text = FatTree::new(4, 3).unwrap().to_toml_with("10 Gbit/s", "2.5 Gbit/s");
    let topology = Topology::parse(&text, "fat-tree.toml").unwrap();
    for (_, link) in topology.links() {
        let is_hosts = link.ends.iter().any(|end| topology[end.node].host().is_some());
        assert_eq!(link.rate, if is_hosts { 10_000_000_000 } else { 2_500_000_000 });
    }
}

#[test]
fn what_is_no_fat_tree_is_refused() {
    for ports in [0, 1, 3, 64] {
        assert_eq!(FatTree::new(ports, 1), Err(FatTreeError::Ports(ports)));
    }
    for workers in [0, 16] {
        assert_eq!(FatTree::new(4, workers), Err(FatTreeError::Workers { workers, ports: 4, hosts: 16 }));
    }
    assert!(FatTree::new(62, 40_000).is_ok());
}

#[test]
fn the_tree_is_described_by_its_numbers() {
    let tree = FatTree::new(6, 5).unwrap();
    assert_eq!(tree.workers(), 5);
    // k = 6: 6 pods, 5 k² / 4 = 45 switches and k³ / 4 = 54 hosts.
    let topology = topology(6, 5);
    assert_eq!(topology.name(), "fat-tree-6");
    let described = "5 workers on a fat tree of 6-port switches: 6 pods, 45 switches, 54 hosts";
    assert_eq!(topology.description(), described);
}

/// Compares the links with the definition for k = 4. The core switches form two groups of two.
#[test]
fn aggregation_switches_reach_their_group_of_core_switches_and_all_edges_of_their_pod() {
    let topology = topology(4, 15);
    let neighbours = |name: &str| {
        let of = topology.neighbours(topology.find(name).unwrap()).into_iter();
        of.map(|there| topology[there.node].name.clone()).collect::<BTreeSet<_>>()
    };
    for pod in 0..4 {
        for (group, cores) in [["core0", "core1"], ["core2", "core3"]].into_iter().enumerate() {
            let edges = [0, 1].map(|edge| format!("edge{pod}-{edge}"));
            let expected: BTreeSet<_> = cores.map(str::to_owned).into_iter().chain(edges).collect();
            assert_eq!(neighbours(&format!("agg{pod}-{group}")), expected);
        }
    }
    // With 15 workers, every host is in use, in order: host 0 is the server, and host n has rank n − 1.
    let below = |names: [&str; 2]| {
        let above = [0, 1].map(|group| format!("agg0-{group}"));
        names.map(str::to_owned).into_iter().chain(above).collect::<BTreeSet<_>>()
    };
    assert_eq!(neighbours("edge0-0"), below(["ps", "w0"]));
    assert_eq!(neighbours("edge0-1"), below(["w1", "w2"]));
}

#[test]
fn the_same_rate_for_all_links_is_given_once() {
    let tree = FatTree::new(4, 3).unwrap();
    assert_eq!(tree.to_toml("10 Gbit/s"), tree.to_toml_with("10 Gbit/s", "10 Gbit/s"));
    assert_eq!(tree.to_toml("10 Gbit/s").matches("rate").count(), 1);
}
