//! Tests of the ids, addresses and settings that a file leaves out.

use tributary_topology::{Node, Problem, Topology, TopologyError};
use tributary_wire::MacAddr;

/// Parses a star: one switch, a server `h0`, and workers from `h1` on. `extra` gives fields of hosts.
fn star(hosts: usize, extra: &[(usize, &str)]) -> Result<Topology, TopologyError> {
    let mut text = "name = 'star'\ndefaults = { rate = '1 Gbit/s' }\nswitch = [{ name = 's' }]\n".to_owned();
    for n in 0..hosts {
        let role = if n == 0 { "server" } else { "worker" };
        let given = extra.iter().find(|(host, _)| *host == n).map_or("", |(_, given)| given);
        text += &format!("[[host]]\nname = 'h{n}'\nrole = '{role}'\n{given}\n");
        text += &format!("[[link]]\nends = ['s', 'h{n}']\n");
    }
    Topology::parse(&text, "star.toml")
}

fn node<'a>(topology: &'a Topology, name: &str) -> &'a Node {
    &topology[topology.find(name).unwrap()]
}

fn ip(topology: &Topology, name: &str) -> [u8; 4] {
    node(topology, name).host().unwrap().ip.octets()
}

fn problem(parsed: Result<Topology, TopologyError>) -> Problem {
    parsed.unwrap_err().problem().unwrap().clone()
}

#[test]
fn addresses_leave_out_the_first_and_the_last_of_each_24() {
    let topology = star(300, &[]).unwrap();
    assert_eq!(ip(&topology, "h0"), [10, 0, 0, 1]);
    assert_eq!(ip(&topology, "h253"), [10, 0, 0, 254]);
    assert_eq!(ip(&topology, "h254"), [10, 0, 1, 1]);
    assert_eq!(ip(&topology, "h299"), [10, 0, 1, 46]);
    let mac = node(&topology, "h254").host().unwrap().mac;
    assert_eq!(mac, MacAddr::new(0x02, 0, 10, 0, 1, 1));
    assert_eq!(node(&topology, "s").id.get(), 1);
    assert_eq!([node(&topology, "h0").id.get(), node(&topology, "h299").id.get()], [1001, 1300]);
}

#[test]
fn only_the_network_and_the_broadcast_address_are_not_for_hosts() {
    for usable in ["10.0.0.1", "10.0.0.255", "10.0.1.0", "10.0.255.0", "10.0.255.254"] {
        let topology = star(2, &[(1, &format!("ip = '{usable}'"))]).unwrap();
        assert_eq!(node(&topology, "h1").host().unwrap().ip.to_string(), usable);
    }
    for other in ["10.0.0.0", "10.0.255.255", "10.1.0.1", "11.0.0.1", "10.0.0.256", "::1"] {
        assert_eq!(problem(star(2, &[(1, &format!("ip = '{other}'"))])), Problem::BadIp(other.into()));
    }
}

#[test]
fn a_host_has_a_unicast_mac_address() {
    for usable in ["00:00:00:00:00:01", "02:00:0a:00:09:09", "fe:ff:ff:ff:ff:ff"] {
        let topology = star(2, &[(1, &format!("mac = '{usable}'"))]).unwrap();
        assert_eq!(node(&topology, "h1").host().unwrap().mac.to_string(), usable);
    }
    for other in ["00:00:00:00:00:00", "01:00:00:00:00:01", "ff:ff:ff:ff:ff:ff", "02:00"] {
        assert_eq!(problem(star(2, &[(1, &format!("mac = '{other}'"))])), Problem::BadMac(other.into()));
    }
}

#[test]
fn a_derived_mac_address_does_not_displace_a_given_one() {
    // The second host would get 10.0.0.2, and with it the address that the first host has.
    let refused = problem(star(2, &[(0, "mac = '02:00:0a:00:00:02'")]));
    assert_eq!(refused, Problem::DuplicateMac { mac: "02:00:0a:00:00:02".into(), holder: "h0".into() });
}

#[test]
fn switches_are_programmable_unless_the_file_denies_it() {
    let parse = |fields: &str| {
        let text = format!(
            "name = 'n'\ndefaults = {{ rate = '1 Gbit/s' }}\nswitch = [{{ name = 's'{fields} }}]\n\
             host = [{{ name = 'w', role = 'worker' }}, {{ name = 'ps', role = 'server' }}]\n\
             link = [{{ ends = ['s', 'w'] }}, {{ ends = ['s', 'ps'] }}]\n"
        );
        Topology::parse(&text, "n.toml")
    };
    let switch = |fields: &str| node(&parse(fields).unwrap(), "s").switch().unwrap().clone();
    let plain = switch("");
    assert_eq!((plain.programmable, plain.slots, plain.p4runtime.clone()), (true, None, None));
    assert!(!switch(", programmable = false").programmable);

    // A switch has the slots of its program, or the fewer ones of the file.
    assert_eq!(plain.slots_of(4096), 4096);
    let fewer = switch(", slots = 64");
    assert_eq!([fewer.slots_of(4096), fewer.slots_of(64), fewer.slots_of(16)], [64, 64, 16]);

    for address in ["127.0.0.1:50051", "[::1]:1", "switch.example:65535"] {
        let given = switch(&format!(", p4runtime = '{address}'")).p4runtime;
        assert_eq!(given.as_deref(), Some(address));
    }
    for address in ["", "switch", ":50051", "switch:", "switch:0", "switch:65536", "switch:x"] {
        let refused = problem(parse(&format!(", p4runtime = '{address}'")));
        assert_eq!(refused, Problem::BadP4RuntimeAddress(address.into()));
    }
}
