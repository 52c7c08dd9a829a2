//! Random topologies, made as text, so that the usual parser reads them.

use std::fmt::Write;

use proptest::prelude::*;
use tributary_topology::Topology;

/// Returns random connected networks.
///
/// They have up to 7 switches on random loaded links, with up to 9 workers and a server on random switches.
/// Some switches are plain or have few slots.
pub fn topologies() -> impl Strategy<Value = Topology> {
    let switch = (
        prop::bool::weighted(0.85),
        prop_oneof![4 => Just(4096u32), 1 => Just(16)],
        any::<prop::sample::Index>(),
    );
    let extra = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), load());
    let switches = prop::collection::vec((switch, load()), 1..8);
    let extras = prop::collection::vec(extra, 0..6);
    let workers = prop::collection::vec((any::<prop::sample::Index>(), load()), 1..10);
    (switches, extras, workers, any::<prop::sample::Index>()).prop_map(
        |(switches, extras, workers, server)| {
            let (count, mut nodes, mut links) = (switches.len(), String::new(), String::new());
            let mut link = |a: String, b: String, load: u32| {
                writeln!(links, "[[link]]\nends = [\"{a}\", \"{b}\"]\nload = \"{load} Mbit/s\"").unwrap();
            };
            for (n, ((programmable, slots, parent), load)) in switches.into_iter().enumerate() {
                writeln!(
                    nodes,
                    "[[switch]]\nname = \"s{n}\"\nprogrammable = {programmable}\nslots = {slots}"
                )
                .unwrap();
                if n > 0 {
                    link(format!("s{n}"), format!("s{}", parent.index(n)), load);
                }
            }
            for (a, b, load) in extras {
                let (a, b) = (a.index(count), b.index(count));
                if a != b {
                    link(format!("s{a}"), format!("s{b}"), load);
                }
            }
            writeln!(nodes, "[[host]]\nname = \"ps\"\nrole = \"server\"").unwrap();
            link(format!("s{}", server.index(count)), "ps".to_owned(), 0);
            for (n, (at, load)) in workers.into_iter().enumerate() {
                writeln!(nodes, "[[host]]\nname = \"w{n}\"\nrole = \"worker\"").unwrap();
                link(format!("s{}", at.index(count)), format!("w{n}"), load);
            }
            let text = format!("name = \"random\"\ndefaults = {{ rate = \"100 Mbit/s\" }}\n{nodes}{links}");
            Topology::parse(&text, "random.toml").unwrap()
        },
    )
}

/// Returns the load of a link in Mbit/s. The link's rate is 100 Mbit/s.
fn load() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 1 => 0u32..100]
}
