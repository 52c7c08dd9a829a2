//! Tests of the project's topology files, and of queries on a topology.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use tributary_topology::Topology;
use tributary_wire::MacAddr;

fn shipped(name: &str) -> Topology {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies").join(name);
    Topology::load(path).unwrap()
}

#[test]
fn every_shipped_file_is_valid_and_has_its_own_name() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let topology = Topology::load(&path).unwrap();
            assert_eq!(topology.name(), path.file_stem().unwrap().to_str().unwrap());
            assert!(!topology.description().is_empty());
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn three_tier_is_as_designed() {
    let topology = shipped("three-tier-8.toml");
    assert_eq!(topology.workers().len(), 8);
    assert_eq!(topology.switches().count(), 7);
    assert_eq!(topology.links().count(), 15);
    assert!(topology.links().all(|(_, link)| link.rate == 50_000_000 && link.load == [0, 0]));

    let ranks: Vec<_> = topology.workers().into_iter().map(|w| topology[w].name.clone()).collect();
    assert_eq!(ranks, ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"]);

    let ids: Vec<_> = topology.nodes().map(|(_, node)| node.id.get()).collect();
    assert_eq!(ids, (1..=7).chain(1001..=1009).collect::<Vec<_>>());
    let w0 = topology[topology.find("w0").unwrap()].host().unwrap();
    assert_eq!(w0.ip, Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!(w0.mac, MacAddr::new(2, 0, 10, 0, 0, 2));
}

#[test]
fn ordinary_frames_take_the_tree() {
    let topology = shipped("three-tier-8.toml");
    let key = |name| topology.find(name).unwrap();
    let forwarding = topology.forwarding();
    let way: Vec<_> = forwarding
        .path(key("w5"), key("w0"))
        .unwrap()
        .iter()
        .map(|step| topology[step.node].name.as_str())
        .collect();
    assert_eq!(way, ["leaf2", "mid1", "root", "mid0", "leaf0", "w0"]);
    assert_eq!(forwarding.next(key("root"), key("ps")).unwrap().port, 1);
    assert!(forwarding.path(key("w0"), key("w0")).unwrap().is_empty());
}

#[test]
fn a_spanning_tree_leaves_the_second_spine_out() {
    let topology = shipped("leaf-spine-8.toml");
    let forwarding = topology.forwarding();
    let ends: usize = topology.nodes().map(|(key, _)| forwarding.ports(key).len()).sum();
    assert_eq!(ends, 2 * (topology.nodes().count() - 1), "a tree has one link less than nodes");
    for (from, _, _) in topology.hosts() {
        for (to, _, _) in topology.hosts() {
            let there = forwarding.path(from, to).unwrap();
            let mut back: Vec<_> = forwarding.path(to, from).unwrap().iter().map(|s| s.link).collect();
            back.reverse();
            assert_eq!(there.iter().map(|s| s.link).collect::<Vec<_>>(), back);
        }
    }
}

#[test]
fn a_neighbour_is_seen_from_both_sides() {
    let topology = shipped("leaf-spine-8.toml");
    for (key, _) in topology.nodes() {
        for there in topology.neighbours(key) {
            let back = topology.neighbour(there.node, there.remote_port).unwrap();
            assert_eq!((back.node, back.remote_port, back.link), (key, there.port, there.link));
            let direction = topology.direction(there.link, key).unwrap();
            assert_eq!(topology[there.link].ends[direction.sender].node, key);
        }
    }
}

#[test]
fn ordinary_frames_can_go_round_what_is_dead() {
    let topology = shipped("leaf-spine-8.toml");
    let key = |name| topology.find(name).unwrap();
    let link = |a, b| {
        let there = key(b);
        topology.neighbours(key(a)).into_iter().find(|near| near.node == there).unwrap().link
    };
    let way = |dead_nodes: &[&'static str], dead_links: &[(&'static str, &'static str)]| {
        let nodes = dead_nodes.iter().map(|name| key(name)).collect();
        let links = dead_links.iter().map(|(a, b)| link(a, b)).collect();
        let path = topology.forwarding_without(&nodes, &links).path(key("w7"), key("ps"))?;
        Some(path.iter().map(|step| topology[step.node].name.clone()).collect::<Vec<_>>())
    };
    let by = |spine: &str| Some(["leaf3", spine, "leaf0", "ps"].map(str::to_owned).to_vec());
    assert_eq!(way(&[], &[]), by("spine0"));
    assert_eq!(way(&["spine0"], &[]), by("spine1"));
    assert_eq!(way(&[], &[("leaf0", "spine0")]), by("spine1"));
    assert_eq!(way(&[], &[("leaf3", "spine0")]), by("spine1"));
    assert_eq!(way(&["spine0", "spine1"], &[]), None);
    assert_eq!(way(&["ps"], &[]), None);
    assert_eq!(way(&["leaf3"], &[]), None);
}
