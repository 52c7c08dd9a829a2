//! Tests of wrong topology files: the message and line of each error.

use proptest::prelude::*;
use tributary_topology::{Problem, Topology, TopologyError};

/// Lines 1 to 12 of a valid file. Text that a test appends starts at line 13.
const GOOD: &str = r#"name = "good"
defaults = { rate = "1 Gbit/s" }
switch = [ { name = "s1" }, { name = "s2" } ]
host = [
  { name = "ps", role = "server" },
  { name = "w0", role = "worker" },
]
link = [
  { ends = ["s1", "ps"] },
  { ends = ["s1", "w0"] },
  { ends = ["s1:5", "s2"] },
]
"#;

fn refused(text: &str) -> (usize, Problem, String) {
    let error = Topology::parse(text, "net.toml").unwrap_err();
    let shown = error.to_string();
    let TopologyError::Invalid { line, problem, .. } = error else { panic!("{shown}") };
    assert!(shown.starts_with(&format!("net.toml:{line}: ")), "{shown}");
    (line, problem, shown)
}

/// Replaces a part of the valid file, and checks the line and the message of the error.
fn check(piece: &str, by: &str, line: usize, told: &str) {
    assert!(GOOD.contains(piece), "{piece}");
    let (at, problem, shown) = refused(&GOOD.replacen(piece, by, 1));
    assert_eq!(at, line, "{problem}");
    assert!(shown.contains(told), "{shown:?} does not tell {told:?}");
}

#[test]
fn names_that_would_do_something_to_a_terminal_are_refused() {
    check("\"good\"", r#""\u001b]0;owned\u0007""#, 1, "control character");
    check("name = \"good\"", "name = \"good\"\ndescription = \"one\\ntwo\"", 2, "one line");
}

#[test]
fn the_file_that_the_cases_break_is_good() {
    let topology = Topology::parse(GOOD, "net.toml").unwrap();
    let port_of = |name, to| {
        let [from, to] = [name, to].map(|name| topology.find(name).unwrap());
        topology.neighbours(from).into_iter().find(|there| there.node == to).unwrap().port
    };
    assert_eq!(
        [port_of("s1", "ps"), port_of("s1", "w0"), port_of("s1", "s2"), port_of("s2", "s1")],
        [1, 2, 5, 1]
    );
}

#[test]
fn names() {
    check(r#"{ name = "s2" }"#, r#"{ name = "s1" }"#, 3, r#"duplicate name "s1": line 3 has it"#);
    check(r#"{ name = "w0""#, r#"{ name = "ps""#, 6, r#"duplicate name "ps": line 5 has it"#);
    check(r#"{ name = "s2" }"#, r#"{ name = "a b" }"#, 3, r#"bad name "a b""#);
    check(r#"{ name = "s2" }"#, r#"{ name = "" }"#, 3, r#"bad name """#);
}

#[test]
fn ends_of_links() {
    check(r#"["s1", "w0"]"#, r#"["s1", "w9"]"#, 10, r#"ends at "w9", but no switch or host"#);
    check(r#"["s1:5", "s2"]"#, r#"["s1:5", "s1"]"#, 11, r#"joins "s1" to itself"#);
    check(r#"["s1", "w0"]"#, r#"["ps", "w0"]"#, 10, "put a switch between them");
    check(r#"["s1:5", "s2"]"#, r#"["s1:5", "w0"]"#, 11, r#""w0" has a link already, on line 10"#);
    check(r#"["s1", "w0"]"#, r#"["s1", "w0:1"]"#, 10, "is a host and has one interface");
    check(r#"["s1", "w0"]"#, r#"["s1", "s2", "w0"]"#, 10, "3 values where two belong");
}

#[test]
fn ports() {
    check(r#"["s1", "ps"]"#, r#"["s1:5", "ps"]"#, 11, r#"duplicate port: "s1" has a link on port 5"#);
    for port in ["0", "501", "x", "", "-1", "70000"] {
        check(r#"["s1:5", "#, &format!(r#"["s1:{port}", "#), 11, "bad port");
    }
}

#[test]
fn a_switch_has_500_ports() {
    let with = |links: usize| {
        let mut text =
            "name = 'big'\ndefaults = { rate = '1 Gbit/s' }\nswitch = [{ name = 's' }]\n".to_owned();
        text += "host = [\n{ name = 'h0', role = 'worker' }, { name = 'h1', role = 'server' },\n";
        text.extend((2..links).map(|n| format!("{{ name = 'h{n}' }},\n")));
        text += "]\n";
        text.extend((0..links).map(|n| format!("[[link]]\nends = ['s', 'h{n}']\n")));
        text
    };
    assert_eq!(Topology::parse(&with(500), "net.toml").unwrap().links().count(), 500);
    let text = with(501);
    let (line, problem, _) = refused(&text);
    assert_eq!(line, text.lines().count());
    assert_eq!(problem, Problem::TooManyPorts { switch: "s".into() });
}

#[test]
fn ids_and_addresses() {
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", id = 0 }"#, 3, "bad node id 0: use 1 to 65535");
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", id = 65536 }"#, 3, "bad node id 65536: use 1 to 65535");
    check(r#"{ name = "w0""#, r#"{ id = -1, name = "w0""#, 6, "bad node id -1: use 1 to 65535");
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", id = "two" }"#, 3, "expected a whole number");
    let both = GOOD.replace(r#""s1" }"#, r#""s1", id = 7 }"#);
    let both = both.replace(r#"{ name = "w0""#, r#"{ id = 7, name = "w0""#);
    assert_eq!(refused(&both).1, Problem::DuplicateId { id: 7, holder: "s1".into() });
    assert_eq!(refused(&both).0, 6);
    check(r#"{ name = "w0""#, r#"{ ip = "10.1.0.1", name = "w0""#, 6, "bad IP address");
    check(r#"{ name = "w0""#, r#"{ ip = "10.0.0.0", name = "w0""#, 6, "bad IP address");
    check(r#"{ name = "w0""#, r#"{ mac = "01:00:00:00:00:01", name = "w0""#, 6, "bad MAC address");
    check(r#"{ name = "w0""#, r#"{ mac = "zz", name = "w0""#, 6, "bad MAC address");
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", p4runtime = "switch" }"#, 3, "use host:port");
}

#[test]
fn duplicate_addresses() {
    let two = |key: &str, value: &str| {
        let field = format!("{{ {key} = \"{value}\", name");
        refused(&GOOD.replacen("  { name", &format!("  {field}"), 2))
    };
    let (line, problem, _) = two("ip", "10.0.3.4");
    assert_eq!((line, problem), (6, Problem::DuplicateIp { ip: [10, 0, 3, 4].into(), holder: "ps".into() }));
    let (line, problem, _) = two("mac", "02:00:00:00:00:09");
    let holder = "ps".to_owned();
    assert_eq!((line, problem), (6, Problem::DuplicateMac { mac: "02:00:00:00:00:09".into(), holder }));
}

#[test]
fn given_addresses_and_ids_are_kept_out_of_the_derived_ones_way() {
    let text = GOOD.replace(r#""s2" }"#, r#""s2", id = 1 }"#);
    let text = text.replace(r#"{ name = "w0""#, r#"{ ip = "10.0.0.1", id = 1001, name = "w0""#);
    let topology = Topology::parse(&text, "net.toml").unwrap();
    let node = |name| &topology[topology.find(name).unwrap()];
    assert_eq!([node("s1").id.get(), node("s2").id.get()], [2, 1]);
    assert_eq!([node("ps").id.get(), node("w0").id.get()], [1002, 1001]);
    assert_eq!(node("ps").host().unwrap().ip.octets(), [10, 0, 0, 2]);
}

#[test]
fn slots() {
    for wrong in ["-1", "4294967296"] {
        let told = format!("bad number of slots {wrong}: use 0 to 4294967295");
        check(r#"{ name = "s2" }"#, &format!(r#"{{ name = "s2", slots = {wrong} }}"#), 3, &told);
    }
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", slots = 1.5 }"#, 3, "expected a whole number");
}

#[test]
fn rates_and_loads() {
    check(r#""1 Gbit/s""#, r#""fast""#, 2, r#"bad rate "fast""#);
    for out_of_range in ["0 bit/s", "-1 Gbit/s", "1000001 Gbit/s"] {
        let told = format!("bad rate {out_of_range:?}");
        check(r#""1 Gbit/s""#, &format!("{out_of_range:?}"), 2, &told);
        check(r#""1 Gbit/s""#, &format!("{out_of_range:?}"), 2, "more than 0 and at most 1000000 Gbit/s");
    }
    check(r#""1 Gbit/s""#, "7", 2, "expected a string");
    check(r#"defaults = { rate = "1 Gbit/s" }"#, "", 9, "no rate");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], rate = "x""#, 9, "bad rate");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], load = ["1 Mbit/s", "2 Gbit/s"]"#, 9, "more than its rate");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], load = "x""#, 9, "bad load \"x\"");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], load = "-1 Mbit/s""#, 9, "from 0 to the link's rate");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], load = 5"#, 9, "expected a rate");
    let text = GOOD.replace(r#"["s1", "ps"]"#, r#"["s1", "ps"], load = ["1 Mbit/s", "0 bit/s"]"#);
    let topology = Topology::parse(&text, "net.toml").unwrap();
    assert_eq!(topology.links().next().unwrap().1.load, [1_000_000, 0]);
}

#[test]
fn longest_packets() {
    check(
        r#"["s1", "ps"]"#,
        r#"["s1", "ps"], mtu = 9001"#,
        9,
        "bad mtu 9001: a link carries packets of 576 to 9000 bytes",
    );
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], mtu = 70000"#, 9, "bad mtu 70000: a link carries");
    check(r#"rate = "1 Gbit/s""#, r#"rate = "1 Gbit/s", mtu = 68"#, 2, "bad mtu 68");
    check(r#"["s1", "ps"]"#, r#"["s1", "ps"], mtu = "large""#, 9, "expected a whole number");
    let read = |text: &str| Topology::parse(text, "net.toml").unwrap();
    assert_eq!(read(GOOD).mtu(), 1500);
    let large = GOOD.replace(r#"rate = "1 Gbit/s""#, r#"rate = "1 Gbit/s", mtu = 9000"#);
    assert_eq!(read(&large).mtu(), 9000);
    let but_one = read(&large.replace(r#"["s1", "ps"]"#, r#"["s1", "ps"], mtu = 4000"#));
    let mtus: Vec<_> = but_one.links().map(|(_, link)| link.mtu).collect();
    assert_eq!((but_one.mtu(), &mtus[..]), (4000, &[4000, 9000, 9000][..]));
    assert_eq!(but_one.clone().with_mtu(1500).unwrap().mtu(), 1500);
    assert_eq!(but_one.with_mtu(100).unwrap_err(), Problem::BadMtu(100));
}

#[test]
fn roles_and_reach() {
    check(r#", role = "server""#, "", 5, "no aggregation server");
    check(r#", role = "worker""#, "", 5, "no worker");
    check(r#""worker""#, r#""boss""#, 6, "unknown variant `boss`");
    check(r#"["s1", "w0"]"#, r#"["s1", "s2"]"#, 6, r#"worker "w0" cannot reach the server "ps""#);
}

#[test]
fn keys_and_syntax() {
    check(r#"{ name = "s2" }"#, r#"{ name = "s2", prot = 1 }"#, 3, "unknown field `prot`");
    check(r#"{ name = "s2" }"#, r#"{ id = 3 }"#, 3, "missing field `name`");
    check("link = [", "links = [", 8, "unknown field `links`");
    check("host = [", "host = ]", 4, "");
    check(r#""good""#, r#""good"#, 1, "");
    let (line, problem, _) = refused("");
    assert_eq!((line, problem), (1, Problem::Syntax("missing field `name`".into())));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Topology::load("nowhere/at-all.toml").unwrap_err();
    assert!(error.to_string().starts_with("nowhere/at-all.toml: cannot read the topology"), "{error}");
    assert!(error.line().is_none() && error.problem().is_none());
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*") {
        let _ = Topology::parse(&text, "net.toml");
    }

    /// Checks damaged topologies, because random text would fail too early in the parser.
    #[test]
    fn a_damaged_topology_is_read_or_refused_with_a_line_of_it(
        at in 0..GOOD.len(), cut in 0usize..12, insert in "[\"s1-9:{}=,\n a]{0,6}",
    ) {
        let end = (at + cut).min(GOOD.len());
        let text = format!("{}{insert}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(error) = Topology::parse(&text, "net.toml") {
            let line = error.line().unwrap();
            prop_assert!((1..=text.lines().count().max(1) + 1).contains(&line), "{}", error);
        }
    }
}
