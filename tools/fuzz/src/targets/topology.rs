//! Topology files that the operator writes, and reloads while jobs run.
//!
//! The target checks these properties: an error names an existing line; an accepted topology has a path
//! between all its workers and servers, finds each of its nodes by name and id, and has no differences from
//! itself; and rates are read back in the form in which they are written.

use tributary_topology::{Topology, format_rate, parse_rate};

use crate::finding::sound;
use crate::{Seed, Target};

pub(super) const TARGET: Target = Target {
    name: "topology",
    about: "topology files, and their next versions",
    max_len: 4096,
    tries: 1500,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Some(rate) = parse_rate(text) {
        // Rates are printed for people, rounded to a hundredth of the unit, so the check allows this
        // rounding.
        let again = sound(parse_rate(&format_rate(rate)).ok_or("a rate that is not read again"));
        assert!(again.abs_diff(rate) <= rate / 200, "{again} in place of {rate}");
    }
    match Topology::parse(text, "input") {
        Ok(topology) => sane(&topology),
        Err(error) => {
            let line = sound(error.line().ok_or("an error without a line"));
            // If a file ends too early, the error names the line after the last line.
            assert!((1..=text.lines().count() + 1).contains(&line), "line {line}: {error}");
        }
    }
}

fn sane(topology: &Topology) {
    let forwarding = topology.forwarding();
    for worker in topology.workers() {
        for server in topology.servers() {
            let ways = [(worker, server), (server, worker)].map(|(from, to)| forwarding.path(from, to));
            assert!(
                ways.iter().all(Option::is_some),
                "no way between {} and a server",
                topology[worker].name
            );
        }
    }
    for (key, node) in topology.nodes() {
        assert_eq!(topology.find(&node.name), Some(key));
        assert_eq!(topology.find_id(node.id), Some(key));
        for via in topology.neighbours(key) {
            assert_eq!(topology.neighbour(key, via.port).map(|via| via.link), Some(via.link));
        }
    }
    let evolution = topology.evolve(topology);
    assert!(evolution.taken.is_empty() && evolution.refused.is_empty(), "{evolution:?}");
}

fn seeds() -> Vec<Seed> {
    let all = [
        ("two-workers", include_str!("../../../../topologies/two-workers.toml")),
        ("plain-middle-4", include_str!("../../../../topologies/plain-middle-4.toml")),
        ("three-tier-8", include_str!("../../../../topologies/three-tier-8.toml")),
        ("rate", "2.5 Gbit/s"),
    ];
    let mut seeds: Vec<Seed> = all.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
    seeds.push(("everything".to_owned(), EVERYTHING.as_bytes().to_vec()));
    seeds
}

/// A topology in which every possible key occurs.
const EVERYTHING: &str = r#"name = "n"
description = "d"
[defaults]
rate = "50 Mbit/s"
[[switch]]
name = "s"
id = 5
slots = 64
p4runtime = "[::1]:9559"
[[switch]]
name = "t"
programmable = false
[[host]]
name = "w"
role = "worker"
id = 2000
mac = "02:00:00:00:00:09"
ip = "10.0.3.4"
[[host]]
name = "p"
role = "server"
[[link]]
ends = ["s:3", "w"]
rate = "1 Gbit/s"
load = "1 Mbit/s"
[[link]]
ends = ["s", "t"]
load = ["1 Mbit/s", "2 kbit/s"]
[[link]]
ends = ["t", "p"]
"#;
