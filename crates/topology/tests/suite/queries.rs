//! Tests of queries on a topology.

use std::collections::HashSet;

use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::NodeId;

/// Two switches with two parallel links, a worker at each of them, and a server at the first one.
const PARALLEL: &str = "name = 'parallel'
defaults = { rate = '1 Gbit/s' }
switch = [{ name = 'a' }, { name = 'b' }, { name = 'alone' }]
host = [
  { name = 'w0', role = 'worker' },
  { name = 'w1', role = 'worker' },
  { name = 'ps', role = 'server' },
  { name = 'idle' },
]
link = [
  { ends = ['a', 'b'] },
  { ends = ['b', 'a'] },
  { ends = ['a', 'w0'] },
  { ends = ['b', 'w1'] },
  { ends = ['ps', 'a'] },
]
";

fn parallel() -> Topology {
    Topology::parse(PARALLEL, "parallel.toml").unwrap()
}

#[test]
fn nodes_are_found_by_name_id_and_key() {
    let topology = parallel();
    for (key, node) in topology.nodes() {
        assert_eq!(topology.find(&node.name), Some(key));
        assert_eq!(topology.find_id(node.id), Some(key));
        assert_eq!(topology.get(key), Some(node));
        assert_eq!(
            (node.host().is_some(), node.switch().is_some()),
            (node.id.get() > 1000, node.id.get() < 4)
        );
    }
    assert_eq!(topology.find("nowhere"), None);
    assert_eq!(topology.find_id(NodeId::new(4).unwrap()), None);
    assert_eq!(topology.get(NodeKey::new(7)), None);
    assert_eq!((topology.graph().node_count(), topology.graph().edge_count()), (7, 5));
}

#[test]
fn nodes_are_listed_by_kind_and_role() {
    let topology = parallel();
    let name = |key: NodeKey| topology[key].name.as_str();
    let switches: Vec<_> = topology.switches().map(|(key, ..)| name(key)).collect();
    let hosts: Vec<_> = topology.hosts().map(|(key, ..)| name(key)).collect();
    assert_eq!(switches, ["a", "b", "alone"]);
    assert_eq!(hosts, ["w0", "w1", "ps", "idle"]);
    assert_eq!(topology.workers().into_iter().map(name).collect::<Vec<_>>(), ["w0", "w1"]);
    assert_eq!(topology.servers().into_iter().map(name).collect::<Vec<_>>(), ["ps"]);
}

#[test]
fn a_link_has_a_direction_for_each_end_and_none_for_others() {
    let topology = parallel();
    let [a, b, w0] = ["a", "b", "w0"].map(|name| topology.find(name).unwrap());
    let (first, second) = (LinkKey::new(0), LinkKey::new(1));
    assert_eq!(topology.direction(first, a).unwrap().sender, 0);
    assert_eq!(topology.direction(first, b).unwrap().sender, 1);
    assert_eq!(topology.direction(second, a).unwrap().sender, 1);
    assert_eq!(topology.direction(second, b).unwrap().link, second);
    assert_eq!(topology.direction(first, w0), None);
    assert_eq!(topology.direction(LinkKey::new(5), a), None);
}

#[test]
fn neighbours_are_listed_by_port_with_the_remote_port() {
    let topology = parallel();
    let [a, b] = ["a", "b"].map(|name| topology.find(name).unwrap());
    let seen = |node: NodeKey| {
        let all = topology.neighbours(node).into_iter();
        all.map(|there| (there.port, topology[there.node].name.clone(), there.remote_port))
            .collect::<Vec<_>>()
    };
    let row = |port: u16, name: &str, remote: u16| (port, name.to_owned(), remote);
    assert_eq!(seen(a), [row(1, "b", 1), row(2, "b", 2), row(3, "w0", 1), row(4, "ps", 1)]);
    assert_eq!(seen(b), [row(1, "a", 1), row(2, "a", 2), row(3, "w1", 1)]);
}

#[test]
fn the_tree_has_one_of_two_parallel_links() {
    let topology = parallel();
    let key = |name| topology.find(name).unwrap();
    let ports = |dead: &[usize], name| {
        let dead = dead.iter().map(|&link| LinkKey::new(link)).collect();
        let forwarding = topology.forwarding_without(&HashSet::new(), &dead);
        forwarding.ports(key(name)).iter().map(|to| to.port).collect::<Vec<_>>()
    };
    assert_eq!((ports(&[], "a"), ports(&[], "b")), (vec![1, 3, 4], vec![1, 3]));
    assert_eq!((ports(&[0], "a"), ports(&[0], "b")), (vec![2, 3, 4], vec![2, 3]));
    assert_eq!((ports(&[0, 1], "a"), ports(&[0, 1], "b")), (vec![3, 4], vec![3]));
    assert_eq!(topology.forwarding().ports(key("alone")), []);
    assert_eq!(topology.forwarding().ports(NodeKey::new(7)), []);
}

#[test]
fn steps_lead_up_and_down_the_tree_and_end() {
    let topology = parallel();
    let key = |name| topology.find(name).unwrap();
    let forwarding = topology.forwarding();
    // (from, to, own port, next node, its port)
    let steps = [
        ("w1", "w0", 1, "b", 3),
        ("b", "w0", 1, "a", 1),
        ("a", "w0", 3, "w0", 1),
        ("a", "w1", 1, "b", 1),
        ("ps", "w1", 1, "a", 4),
        ("w0", "ps", 1, "a", 3),
    ];
    for (from, to, port, next, remote_port) in steps {
        let step = forwarding.next(key(from), key(to)).unwrap();
        assert_eq!(
            (step.port, step.node, step.remote_port),
            (port, key(next), remote_port),
            "{from} to {to}"
        );
        assert_eq!(topology.neighbour(key(from), port), Some(step));
    }
    assert_eq!(forwarding.next(key("a"), key("a")), None);
    assert_eq!(forwarding.next(key("a"), key("alone")), None);
    assert_eq!(forwarding.next(key("idle"), key("alone")), None);
    assert_eq!(forwarding.path(key("alone"), key("w0")), None);
}
