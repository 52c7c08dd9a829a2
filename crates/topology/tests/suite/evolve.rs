//! Tests of topologies that change while they are in use.

use tributary_topology::{Evolution, Role, Topology};

const OLD: &str = r#"
name = "small"
[defaults]
rate = "1 Gbit/s"
[[switch]]
name = "leaf"
[[host]]
name = "w0"
role = "worker"
[[host]]
name = "ps"
role = "server"
[[link]]
ends = ["leaf", "w0"]
[[link]]
ends = ["leaf", "ps"]
"#;

/// Replaces one text in the file, and evolves the old topology to the new one.
fn evolve(from: &str, to: &str) -> (Topology, Evolution) {
    let old = Topology::parse(OLD, "old").unwrap();
    assert!(OLD.contains(from));
    let newer = Topology::parse(&OLD.replacen(from, to, 1), "newer").unwrap();
    let evolution = old.evolve(&newer);
    for (key, node) in old.nodes() {
        assert_eq!(evolution.topology[key].name, node.name, "keys stay good");
    }
    for (key, link) in old.links() {
        assert_eq!(evolution.topology[key].ends, link.ends, "keys stay good");
    }
    (old, evolution)
}

#[test]
fn the_same_file_changes_nothing() {
    let (old, evolution) = evolve("", "");
    assert_eq!((evolution.taken.len(), evolution.refused.len()), (0, 0));
    assert_eq!(evolution.topology.nodes().count(), old.nodes().count());
}

#[test]
fn another_mtu_is_refused_since_slices_are_as_wide_as_it_lets_them_be() {
    let (old, evolution) = evolve("rate = \"1 Gbit/s\"", "rate = \"1 Gbit/s\"\nmtu = 9000");
    assert_eq!(evolution.taken.len(), 0);
    assert_eq!(evolution.refused[0], "the link between leaf and w0 has another MTU: it is in use as it was");
    assert_eq!(evolution.topology.mtu(), old.mtu());
}

#[test]
fn rates_slots_and_roles_are_taken() {
    let (_, evolution) = evolve("1 Gbit/s", "2 Gbit/s");
    let changed = [
        "the rate or load of the link between leaf and w0",
        "the rate or load of the link between leaf and ps",
    ];
    assert_eq!((&evolution.taken[..], evolution.refused.len()), (&changed.map(String::from)[..], 0));
    assert!(evolution.topology.links().all(|(_, link)| link.rate == 2_000_000_000));

    let (old, evolution) = evolve("name = \"leaf\"", "name = \"leaf\"\nslots = 64");
    assert_eq!(evolution.taken, ["the number of slots of leaf"]);
    let leaf = old.find("leaf").unwrap();
    assert_eq!(evolution.topology[leaf].switch().unwrap().slots, Some(64));

    let two = OLD.replacen("[[link]]", "[[host]]\nname = \"w1\"\nrole = \"worker\"\n[[link]]", 1)
        + "[[link]]\nends = [\"leaf\", \"w1\"]\n";
    let old = Topology::parse(&two, "old").unwrap();
    let idle = two.replacen("name = \"w1\"\nrole = \"worker\"", "name = \"w1\"", 1);
    let evolution = old.evolve(&Topology::parse(&idle, "newer").unwrap());
    assert_eq!(
        (&evolution.taken[..], evolution.topology.workers().len()),
        (&["the role of w1".to_owned()][..], 1)
    );
}

#[test]
fn a_new_host_comes_with_its_link_wherever_it_is_in_the_file() {
    let more = "[[host]]\nname = \"w1\"\nrole = \"worker\"\n[[link]]\nends = [\"leaf\", \"w0\"]";
    let link = "ends = [\"leaf\", \"ps\"]\n[[link]]\nends = [\"leaf\", \"w1\"]";
    let newer = OLD.replacen("[[link]]\nends = [\"leaf\", \"w0\"]", more, 1);
    let newer = newer.replacen("ends = [\"leaf\", \"ps\"]", link, 1);
    let old = Topology::parse(OLD, "old").unwrap();
    let evolution = old.evolve(&Topology::parse(&newer, "newer").unwrap());
    assert_eq!(evolution.taken, ["host w1", "the link between leaf and w1"]);
    assert_eq!(evolution.refused, Vec::<String>::new());
    let topology = evolution.topology;
    let (leaf, w1) = (topology.find("leaf").unwrap(), topology.find("w1").unwrap());
    assert_eq!(topology.neighbour(leaf, 3).unwrap().node, w1);
    assert_eq!(topology[w1].host().unwrap().role, Some(Role::Worker));
    assert!(topology.forwarding().path(w1, old.find("w0").unwrap()).is_some());

    // Before the other hosts in the file, the new host would get the id and the addresses of another host.
    let before = OLD.replacen("[[host]]", "[[host]]\nname = \"w1\"\nrole = \"worker\"\n[[host]]", 1);
    let before = before.replacen("ends = [\"leaf\", \"ps\"]", link, 1);
    let evolution = old.evolve(&Topology::parse(&before, "before").unwrap());
    assert!(evolution.taken.is_empty(), "{:?}", evolution.taken);
    assert!(evolution.refused.iter().any(|what| what.starts_with("host w1 is new, and has the id")));
}

#[test]
fn what_is_in_use_stays_and_is_named() {
    let refused = |from: &str, to: &str| {
        let (_, evolution) = evolve(from, to);
        assert!(evolution.taken.is_empty(), "{:?}", evolution.taken);
        evolution.refused.join("; ")
    };
    let addresses = refused("name = \"w0\"", "name = \"w0\"\nmac = \"02:00:00:00:00:77\"");
    assert_eq!(addresses, "w0 has another id, kind, address or setting: it is in use as it was");
    assert!(
        refused("name = \"leaf\"", "name = \"leaf\"\nprogrammable = false").starts_with("leaf has another")
    );
    let second =
        "ends = [\"leaf\", \"ps\"]\n[[switch]]\nname = \"spine\"\n[[link]]\nends = [\"leaf\", \"spine\"]";
    let switch = refused("ends = [\"leaf\", \"ps\"]", second);
    assert!(switch.contains("switch spine is new: it needs a controller that starts anew"), "{switch}");
    assert!(switch.contains("the link between leaf and spine: not both of its ends are there"), "{switch}");
    // In the new file, both links use other ports.
    let swapped = OLD
        .replacen("\"w0\"]", "\"x\"]", 1)
        .replacen("\"ps\"]", "\"w0\"]", 1)
        .replacen("\"x\"]", "\"ps\"]", 1);
    let old = Topology::parse(OLD, "old").unwrap();
    let evolution = old.evolve(&Topology::parse(&swapped, "swapped").unwrap());
    assert!(evolution.taken.is_empty(), "{:?}", evolution.taken);
    assert_eq!(evolution.refused.len(), 4, "{:?}", evolution.refused);
}

#[test]
fn what_is_missing_stays() {
    let more = OLD.replacen("[[link]]", "[[host]]\nname = \"w1\"\nrole = \"worker\"\n[[link]]", 1)
        + "[[link]]\nends = [\"leaf\", \"w1\"]\n";
    let old = Topology::parse(&more, "old").unwrap();
    let evolution = old.evolve(&Topology::parse(OLD, "newer").unwrap());
    let missing = [
        "w1 is missing: it is in use as it was",
        "the link between leaf and w1 is missing: it is in use as it was",
    ];
    assert_eq!(evolution.refused, missing);
    assert!(evolution.topology.find("w1").is_some());
}

/// Evolves `OLD` with one more host, whose fields are `given`.
fn with_host(given: &str) -> Evolution {
    let host =
        format!("[[host]]\nname = \"w1\"\nrole = \"worker\"\n{given}\n[[link]]\nends = [\"leaf\", \"w0\"]");
    let newer = OLD.replacen("[[link]]\nends = [\"leaf\", \"w0\"]", &host, 1);
    let newer = newer + "[[link]]\nends = [\"leaf\", \"w1\"]\n";
    // The addresses and the id of the host are free in the newer file, where those of the server are others.
    let newer = newer.replacen("role = \"server\"", "role = \"server\"\nid = 9\nip = \"10.0.9.9\"", 1);
    Topology::parse(OLD, "old").unwrap().evolve(&Topology::parse(&newer, "newer").unwrap())
}

#[test]
fn a_new_host_must_not_have_an_id_or_address_that_is_in_use() {
    // In the old file, the server has the id 1002 and the addresses 10.0.0.2 and 02:00:0a:00:00:02.
    let free = with_host("id = 1009\nip = \"10.0.0.9\"\nmac = \"02:00:00:00:00:09\"");
    assert!(free.taken.contains(&"host w1".to_owned()), "{:?}", free.refused);
    assert!(free.topology.find("w1").is_some());
    for in_use in [
        "id = 1002\nip = \"10.0.0.9\"\nmac = \"02:00:00:00:00:09\"",
        "id = 1009\nip = \"10.0.0.2\"\nmac = \"02:00:00:00:00:09\"",
        "id = 1009\nip = \"10.0.0.9\"\nmac = \"02:00:0a:00:00:02\"",
    ] {
        let evolution = with_host(in_use);
        assert!(evolution.refused.iter().any(|what| what.starts_with("host w1 is new")), "{in_use}");
        assert!(evolution.topology.find("w1").is_none());
    }
}

#[test]
fn a_link_may_have_its_ends_in_the_other_order() {
    let loaded = OLD.replacen("\"w0\"]", "\"w0\"]\nload = [\"3 Mbit/s\", \"4 Mbit/s\"]", 1);
    let old = Topology::parse(&loaded, "old").unwrap();
    let evolved = |load: &str| {
        let link = format!("ends = [\"w0\", \"leaf\"]\nload = {load}");
        let newer = OLD.replacen("ends = [\"leaf\", \"w0\"]", &link, 1);
        let evolution = old.evolve(&Topology::parse(&newer, "newer").unwrap());
        assert!(evolution.refused.is_empty(), "{:?}", evolution.refused);
        let (_, link) = evolution.topology.links().next().unwrap();
        (evolution.taken.len(), link.load)
    };
    assert_eq!(evolved("[\"4 Mbit/s\", \"3 Mbit/s\"]"), (0, [3_000_000, 4_000_000]));
    assert_eq!(evolved("[\"5 Mbit/s\", \"6 Mbit/s\"]"), (1, [6_000_000, 5_000_000]));
}

#[test]
fn the_description_is_taken_without_a_note() {
    let (_, evolution) = evolve("name = \"small\"", "name = \"small\"\ndescription = \"a rack\"");
    assert_eq!((evolution.topology.description(), evolution.taken.len()), ("a rack", 0));
}

#[test]
fn a_new_link_ends_at_the_new_host_although_an_old_host_is_missing() {
    let with = |host: &str, given: &str, port: u16| {
        let entry = format!("[[host]]\nname = \"{host}\"\nrole = \"worker\"\n{given}\n[[link]]");
        let link = format!("[[link]]\nends = [\"leaf:{port}\", \"{host}\"]\n");
        Topology::parse(&(OLD.replacen("[[link]]", &entry, 1) + &link), host).unwrap()
    };
    let old = with("w1", "", 3);
    let evolution = old.evolve(&with("w2", "id = 1009\nip = \"10.0.0.9\"", 4));
    assert_eq!(evolution.taken, ["host w2", "the link between leaf and w2"]);
    let topology = evolution.topology;
    let [leaf, w1, w2] = ["leaf", "w1", "w2"].map(|name| topology.find(name).unwrap());
    let seen = [3, 4].map(|port| topology.neighbour(leaf, port).unwrap().node);
    assert_eq!((seen, topology.neighbours(w2)[0].node), ([w1, w2], leaf));
}
