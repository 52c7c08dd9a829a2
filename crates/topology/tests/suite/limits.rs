//! Tests of values at the limits of what a file may contain.

use tributary_topology::{MAX_PORT, MAX_RATE, MTUS, Problem, Topology, TopologyError};

/// A valid file. A test replaces a part of it.
const FILE: &str = "name = 'n'
switch = [{ name = 's' }]
host = [{ name = 'w', role = 'worker' }, { name = 'ps', role = 'server' }]
[[link]]
ends = ['s', 'w']
rate = '1 Gbit/s'
[[link]]
ends = ['s', 'ps']
rate = '1 Gbit/s'
";

fn parse(part: &str, by: &str) -> Result<Topology, TopologyError> {
    assert!(FILE.contains(part), "{part}");
    Topology::parse(&FILE.replacen(part, by, 1), "n.toml")
}

fn problem(parsed: Result<Topology, TopologyError>) -> Problem {
    let error = parsed.unwrap_err();
    assert!(error.line().is_some());
    error.problem().unwrap().clone()
}

#[test]
fn a_name_has_32_letters_digits_and_marks_at_most() {
    for name in ["a", "A-b_c.9", &"x".repeat(32)] {
        let text = FILE.replace("'s'", &format!("'{name}'"));
        assert!(Topology::parse(&text, "n.toml").unwrap().find(name).is_some(), "{name}");
    }
    for name in ["", "a b", "a:1", "ü", "a/b", &"x".repeat(33)] {
        let text = FILE.replace("'s'", &format!("'{name}'"));
        assert_eq!(problem(Topology::parse(&text, "n.toml")), Problem::BadName(name.into()));
    }
}

#[test]
fn ports_reach_from_1_to_500() {
    assert_eq!(MAX_PORT, 500);
    for port in [1, 500] {
        let topology = parse("['s', 'w']", &format!("['s:{port}', 'w']")).unwrap();
        let (s, w) = (topology.find("s").unwrap(), topology.find("w").unwrap());
        assert_eq!(topology.neighbour(s, port).unwrap().node, w);
        // The other link gets the first free port.
        let free = if port == 1 { 2 } else { 1 };
        assert_eq!(topology.neighbour(s, free).unwrap().node, topology.find("ps").unwrap());
        assert_eq!(topology.neighbour(s, 3), None);
    }
    for port in [0, 501] {
        let end = format!("s:{port}");
        assert_eq!(problem(parse("['s', 'w']", &format!("['{end}', 'w']"))), Problem::BadPort { end });
    }
}

#[test]
fn mtus_reach_from_576_to_9000() {
    assert_eq!((*MTUS.start(), *MTUS.end()), (576, 9000));
    for mtu in [576, 9000] {
        let topology = parse("['s', 'w']", &format!("['s', 'w']\nmtu = {mtu}")).unwrap();
        assert_eq!(topology.links().next().unwrap().1.mtu, mtu);
        assert_eq!(topology.with_mtu(mtu).unwrap().mtu(), mtu);
    }
    for mtu in [575, 9001] {
        assert_eq!(problem(parse("['s', 'w']", &format!("['s', 'w']\nmtu = {mtu}"))), Problem::BadMtu(mtu));
    }
}

#[test]
fn a_rate_reaches_to_a_petabit_and_a_load_to_the_rate() {
    assert_eq!(MAX_RATE, 1_000_000_000_000_000);
    for (rate, bits) in [("1 bit/s", 1), ("1000000 Gbit/s", MAX_RATE)] {
        let topology = parse("1 Gbit/s", rate).unwrap();
        assert_eq!(topology.links().next().unwrap().1.rate, bits);
    }
    assert_eq!(problem(parse("1 Gbit/s", "0 bit/s")), Problem::BadRate("0 bit/s".into()));

    let full = parse("['s', 'w']", "['s', 'w']\nload = '1 Gbit/s'").unwrap();
    assert_eq!(full.links().next().unwrap().1.load, [1_000_000_000, 1_000_000_000]);
    let above = problem(parse("['s', 'w']", "['s', 'w']\nload = ['1 bit/s', '1000000001 bit/s']"));
    assert_eq!(above, Problem::LoadAboveRate { load: 1_000_000_001, rate: 1_000_000_000 });
}

#[test]
fn the_name_and_the_description_are_text() {
    let topology = parse("name = 'n'", "name = 'n'\ndescription = 'two hosts'").unwrap();
    assert_eq!((topology.name(), topology.description()), ("n", "two hosts"));
    assert_eq!(parse("name = 'n'", "name = 'n'").unwrap().description(), "");
}
