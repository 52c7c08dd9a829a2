//! Scripts for `ip`, `tc`, `nft` and `ethtool` as text. This file does not execute them.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use tributary_topology::{Host, Link, NodeKey, SUBNET_PREFIX_BITS, Topology};

use crate::names::{self, BRIDGE, LOST, MANAGEMENT};
use crate::options::{LabOptions, SwitchKind};
use crate::station::{Interface, MANAGEMENT_PREFIX_BITS, Station};

/// Bytes of an Ethernet header. Rates and queues count whole frames, the MTU only packets.
const ETHERNET_HEADER_BYTES: u64 = 14;
/// The reciprocal of the idle time, in seconds, for which a link may compensate in one burst. Without
/// bursts, late timers would reduce the link's capacity.
const BURST_SECONDS_RECIPROCAL: u64 = 1000;
/// The least burst in frames. It applies to low rates, at which fewer frames fit into the burst time.
const MIN_BURST_FRAMES: u64 = 4;
/// The header space that the kernel's TCP reserves in an interface's longest frame (`MAX_TCP_HEADER`).
const TCP_HEADER_BYTES: u64 = 320;
/// The longest frame that veth accepts from TCP, which is also its default.
const MAX_SEGMENTED_BYTES: u64 = 65_536;
/// A loss is decided by a random number below this one.
const LOSS_MODULUS: f64 = 1e9;
/// A bridge that only forwards.
///
/// It has no spanning tree protocol, no wait before a port works, and no multicast snooping, which sends queries and
/// holds back groups without members.
const PLAIN_BRIDGE: &str = "stp_state 0 forward_delay 0 mcast_snooping 0";
/// Offloads of a veth interface that pass frames longer than the MTU, or without a checksum, to
/// programs that read raw frames at the other end.
const OFFLOADS: [&str; 6] = ["tx", "rx", "sg", "tso", "gso", "gro"];
/// Offloads that produce frames which even a switch's port cannot split.
const SEGMENTS_OF_TCP: [&str; 2] = ["tso", "gro"];

/// The scripts that set up one namespace.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// Script for `ip -batch`.
    pub(crate) ip: String,
    /// Script for `tc -batch`; empty if links have no rate.
    pub(crate) tc: String,
    /// Script for `nft -f`; empty if links lose no frames.
    pub(crate) nft: String,
    /// The interfaces of the data network.
    pub(crate) data_interfaces: Vec<String>,
    /// The offloads to disable on these interfaces.
    pub(crate) without: &'static [&'static str],
}

/// Makes the scripts of one lab.
pub(crate) struct Scripts<'a> {
    topology: &'a Topology,
    options: &'a LabOptions,
    controller: &'a Station,
    /// The stations by the index of their node in the topology.
    nodes: &'a [Station],
}

impl<'a> Scripts<'a> {
    /// Creates the scripts' source. `stations` must belong to `topology`; returns `None` if there are none.
    pub(crate) fn new(
        topology: &'a Topology,
        options: &'a LabOptions,
        stations: &'a [Station],
    ) -> Option<Self> {
        let (controller, nodes) = stations.split_first()?;
        Some(Self { topology, options, controller, nodes })
    }

    /// Returns a script for `ip -batch` in the machine's own namespace that creates the labs' namespaces.
    pub(crate) fn namespaces(&self) -> String {
        let stations = std::iter::once(self.controller).chain(self.nodes);
        stations.map(|station| format!("netns add {}\n", station.namespace)).collect()
    }

    /// Returns a script for `ip -batch` in the machine's own namespace that creates all veth pairs,
    /// directly between the labs' namespaces.
    pub(crate) fn cables(&self) -> String {
        let mut script = String::new();
        for (_, link) in self.topology.links() {
            let [here, there] = link.ends.map(|end| self.end(end.node, end.port, link.mtu));
            let _ = writeln!(script, "link add {here} type veth peer {there}");
        }
        for (node, station) in self.nodes.iter().enumerate() {
            let here = format!(
                "name {MANAGEMENT} netns {} address {}",
                station.namespace,
                management_mac(station.management)
            );
            let there = format!("name {} netns {}", management_port(node), self.controller.namespace);
            let _ = writeln!(script, "link add {here} type veth peer {there}");
        }
        script
    }

    /// Returns one end of a veth pair in the syntax of `ip link add`. Hosts get the topology's MAC address.
    fn end(&self, node: NodeKey, port: u16, mtu: u16) -> String {
        let name = names::interface(&self.topology[node].name, port);
        let mut end = format!("name {name} netns {} mtu {mtu}", self.nodes[node.index()].namespace);
        if let Some(host) = self.topology[node].host() {
            let _ = write!(end, " address {}", host.mac);
        }
        end
    }

    /// Returns the setup of the controller's namespace, with the bridge of the management network.
    pub(crate) fn controller(&self) -> Setup {
        let address = self.controller.management;
        let mac = management_mac(address);
        let mut ip = "link set dev lo up\n".to_owned();
        // The bridge gets a fixed address. Otherwise it uses a port's address, which changes when ports
        // change.
        let _ = writeln!(ip, "link add name {MANAGEMENT} address {mac} type bridge {PLAIN_BRIDGE}");
        for node in 0..self.nodes.len() {
            let _ = writeln!(ip, "link set dev {} master {MANAGEMENT} up", management_port(node));
        }
        ip.push_str(&management_address(address));
        Setup { ip, ..Setup::default() }
    }

    /// Returns the setups of all nodes' namespaces, in the topology's order.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&'a Station, Setup)> {
        self.topology.nodes().zip(self.nodes).map(|((key, _), station)| (station, self.node(key, station)))
    }

    fn node(&self, key: NodeKey, station: &Station) -> Setup {
        let mut ip = "link set dev lo up\n".to_owned();
        ip.push_str(&management_address(station.management));
        // The bridge is needed even if no frames are lost now, because any link can be cut later.
        let _ = writeln!(ip, "link add name {LOST} type bridge {PLAIN_BRIDGE}");
        let _ = writeln!(ip, "link set dev {LOST} up");
        for Interface { port, name } in &station.interfaces {
            let link = self.topology.neighbour(key, *port).map(|to| &self.topology[to.link]);
            let segmentation = link.map_or_else(String::new, |link| self.segmentation(link));
            let _ = writeln!(ip, "link set dev {name}{segmentation} up");
        }
        match self.topology[key].host() {
            Some(host) => ip.push_str(&self.host(key, host, station)),
            None if self.options.switches == SwitchKind::Bridge => ip.push_str(&self.bridge(key)),
            None => {}
        }
        let data_interfaces = station.interfaces.iter().map(|interface| interface.name.clone()).collect();
        let without: &[&str] = match (self.options.offloads, self.options.switches) {
            (false, _) => &OFFLOADS,
            (true, SwitchKind::None) => &SEGMENTS_OF_TCP,
            // A bridge does not read the content of frames.
            (true, SwitchKind::Bridge) => &[],
        };
        Setup { ip, tc: self.rates(key), nft: self.losses(station), data_interfaces, without }
    }

    fn host(&self, key: NodeKey, host: &Host, station: &Station) -> String {
        let mut ip = String::new();
        for interface in &station.interfaces {
            let name = &interface.name;
            let _ = writeln!(ip, "addr add {}/{SUBNET_PREFIX_BITS} brd + dev {name}", host.ip);
            let others = self.topology.hosts().filter(|(other, ..)| self.options.static_arp && *other != key);
            for (_, _, other) in others {
                let _ = writeln!(ip, "neigh add {} lladdr {} nud permanent dev {name}", other.ip, other.mac);
            }
        }
        ip
    }

    fn bridge(&self, key: NodeKey) -> String {
        let mut ip = format!("link add name {BRIDGE} type bridge {PLAIN_BRIDGE}\nlink set dev {BRIDGE} up\n");
        for to in self.topology.forwarding().ports(key) {
            let port = names::interface(&self.topology[key].name, to.port);
            let _ = writeln!(ip, "link set dev {port} master {BRIDGE}");
        }
        ip
    }

    /// Returns the option that limits the frames which TCP and our ports may pass down as one.
    ///
    /// A random loss must drop only one frame. And a token bucket splits a unit that it cannot send at
    /// once, which costs as much processor time as separate frames.
    fn segmentation(&self, link: &Link) -> String {
        if self.options.loss > 0.0 || self.options.single_frames {
            return " gso_max_segs 1".to_owned();
        }
        if !self.options.rates {
            return String::new();
        }
        let frames = burst_bytes(link) / frame_bytes(link) * frame_bytes(link);
        let longest = (frames + TCP_HEADER_BYTES).min(burst_bytes(link)).min(MAX_SEGMENTED_BYTES);
        format!(" gso_max_size {longest}")
    }

    /// Returns the token buckets of a node's interfaces. A token bucket shapes outgoing frames; with one at
    /// both ends, both directions of a link are shaped.
    fn rates(&self, key: NodeKey) -> String {
        if !self.options.rates {
            return String::new();
        }
        let mut script = String::new();
        for to in self.topology.neighbours(key) {
            let name = names::interface(&self.topology[key].name, to.port);
            let link = &self.topology[to.link];
            let limit = u64::from(self.options.queue_frames) * frame_bytes(link);
            let (rate, burst) = (link.rate, burst_bytes(link));
            let _ =
                writeln!(script, "qdisc add dev {name} root tbf rate {rate}bit burst {burst} limit {limit}");
        }
        script
    }

    /// Returns the rules for random losses at the sending end.
    ///
    /// Only the egress hook there sees the frames of packet sockets, of the host's kernel and of a bridge,
    /// because packet sockets at the receiving end read frames before any hook. Lost frames are forwarded
    /// to a bridge without ports. They are not dropped, because the kernel would report the drop to the
    /// sender, and TCP would detect the loss at once.
    fn losses(&self, station: &Station) -> String {
        if self.options.loss <= 0.0 {
            return String::new();
        }
        let threshold = (self.options.loss * LOSS_MODULUS).round();
        let mut script = "table netdev loss {\n".to_owned();
        for Interface { port, name } in &station.interfaces {
            let _ = writeln!(
                script,
                "chain port{port} {{\n\
                 type filter hook egress device \"{name}\" priority 0;\n\
                 numgen random mod {LOSS_MODULUS} < {threshold} counter fwd to \"{LOST}\"\n\
                 }}"
            );
        }
        script.push_str("}\n");
        script
    }
}

/// Returns the name of the controller's end of the management cable to the node with this index.
fn management_port(node: usize) -> String {
    format!("m{}", node + 1)
}

/// Returns a locally administered MAC address that no host derives from its own IP address.
fn management_mac(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:ff:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn management_address(address: Ipv4Addr) -> String {
    format!(
        "addr add {address}/{MANAGEMENT_PREFIX_BITS} brd + dev {MANAGEMENT}\n\
         link set dev {MANAGEMENT} up\n"
    )
}

/// Returns the bytes of a link's longest frame.
fn frame_bytes(link: &Link) -> u64 {
    u64::from(link.mtu) + ETHERNET_HEADER_BYTES
}

/// Returns the bytes that a link's token bucket lets pass at once after an idle time.
fn burst_bytes(link: &Link) -> u64 {
    (link.rate / 8 / BURST_SECONDS_RECIPROCAL).max(MIN_BURST_FRAMES * frame_bytes(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::station::stations;

    /// Calls `check` with the scripts for one of the repository's topologies.
    fn with_scripts(topology: &str, switches: SwitchKind, check: impl Fn(&Scripts<'_>, &Topology)) {
        with_options(topology, &LabOptions { switches, loss: 0.01, ..LabOptions::new("lab") }, check);
    }

    fn with_options(topology: &str, options: &LabOptions, check: impl Fn(&Scripts<'_>, &Topology)) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let topology = Topology::load(folder.join(topology)).unwrap();
        let stations = stations(options, &topology).unwrap();
        check(&Scripts::new(&topology, options, &stations).unwrap(), &topology);
    }

    #[test]
    fn no_interface_is_ever_in_the_machines_own_namespace() {
        with_scripts("three-tier-8.toml", SwitchKind::None, |scripts, topology| {
            let cables = scripts.cables();
            assert_eq!(cables.lines().count(), topology.links().count() + topology.nodes().count());
            assert!(cables.lines().all(|cable| cable.matches(" netns tributary.lab.").count() == 2));
        });
    }

    #[test]
    fn bridges_join_the_ports_of_a_spanning_tree_only() {
        with_scripts("leaf-spine-8.toml", SwitchKind::Bridge, |scripts, topology| {
            let setups: String = scripts.nodes().map(|(_, setup)| setup.ip).collect();
            // A tree has nodes - 1 links with two ends each. A host's end is not a bridge's port.
            let ends = 2 * (topology.nodes().count() - 1) - topology.hosts().count();
            assert_eq!(setups.matches(" master br0").count(), ends);
        });
    }

    #[test]
    fn both_ends_of_every_link_have_a_rate_and_a_loss() {
        with_scripts("leaf-spine-8.toml", SwitchKind::None, |scripts, topology| {
            let (tc, nft): (String, String) =
                scripts.nodes().map(|(_, setup)| (setup.tc, setup.nft)).collect();
            let ends = 2 * topology.links().count();
            assert_eq!(tc.matches(" rate 50000000bit burst 6250 limit 775168\n").count(), ends);
            assert_eq!(nft.matches("numgen random mod 1000000000 < 10000000 ").count(), ends);
            let ip: String = scripts.nodes().map(|(_, setup)| setup.ip).collect();
            assert_eq!(ip.matches(" gso_max_segs 1 up\n").count(), ends);
        });
    }

    #[test]
    fn what_is_handed_down_as_one_frame_fits_the_links_token_bucket() {
        let ip = |options: &LabOptions, topology: &str, count: &dyn Fn(&str, usize)| {
            with_options(topology, options, |scripts, topology| {
                let ip: String = scripts.nodes().map(|(_, setup)| setup.ip).collect();
                count(&ip, 2 * topology.links().count());
            });
        };
        let options = LabOptions::new("lab");
        // Four of TCP's frames with their headers fit into 6,250 bytes. A lower limit would allow only three.
        ip(&options, "leaf-spine-8.toml", &|ip, ends| {
            assert_eq!(ip.matches(" gso_max_size 6250 up\n").count(), ends);
        });
        let unlimited = LabOptions { rates: false, ..options };
        ip(&unlimited, "leaf-spine-8.toml", &|ip, _| assert!(!ip.contains("gso"), "{ip}"));
    }
}
