//! The links of a lab: their names, cuts and repairs.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use tributary_topology::{NodeKey, Topology};

use crate::error::LabError;
use crate::names::{self, LOST};

/// The nftables table that drops frames at a station.
const TABLE: &str = "cut";

/// A link of the data network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The two nodes, as in `leaf0-w3`. If two switches have several links, the interface at the first end,
    /// as in `spine0-eth2`.
    pub name: String,
    /// The link's ends, in the order of the topology's file.
    pub ends: [LinkEnd; 2],
    /// The kind of cut; `None` if the link is not cut.
    pub cut: Option<Cut>,
    /// The index of the end whose interface goes down when the link loses its carrier. It is the switch's
    /// end if there is one, so that a host keeps its addresses, as it does when a cable is pulled.
    pub(crate) port: usize,
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// The node's name.
    pub station: String,
    /// The port's number in the topology.
    pub port: u16,
    /// The port's interface inside the node's namespace.
    pub interface: String,
}

/// The way in which a link is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Drops the frames of both directions, and neither end notices, as when a fibre between two media
    /// converters breaks. Frames that are in the link's queue at that time still arrive.
    Silent,
    /// Sets the interface at one end down, at a switch's end if there is one. The other end loses its
    /// carrier.
    Carrier,
}

/// Returns the number of links between two nodes.
fn parallels(topology: &Topology, first: NodeKey, second: NodeKey) -> usize {
    topology.neighbours(first).iter().filter(|neighbour| neighbour.node == second).count()
}

/// Returns the index of the link that `wanted` names. `wanted` is `A-B` or `A:B` with the link's nodes
/// in any order, or the name of the interface at one of its ends.
pub(crate) fn find(lab: &str, links: &[Link], wanted: &str) -> Result<usize, LabError> {
    let matching = |matches: &dyn Fn(&Link) -> bool| -> Vec<usize> {
        (0..links.len()).filter(|&place| matches(&links[place])).collect()
    };
    let mut found = matching(&|link| link.name == wanted);
    if found.is_empty() {
        found = matching(&|link| link.joins(wanted) || link.ends.iter().any(|end| end.interface == wanted));
    }
    let names = |places: &mut dyn Iterator<Item = &Link>| -> String {
        places.map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    match found[..] {
        [only] => Ok(only),
        [] => Err(LabError::NoLink { lab: lab.into(), link: wanted.into(), known: names(&mut links.iter()) }),
        _ => Err(LabError::SeveralLinks {
            link: wanted.into(),
            candidates: names(&mut found.iter().filter_map(|&place| links.get(place))),
        }),
    }
}

impl Link {
    /// Returns all links of a topology in the order of its file. None of them is cut, as in a new lab.
    pub fn of(topology: &Topology) -> Vec<Self> {
        let link = |link: &tributary_topology::Link| {
            let [first, second] = link.ends.map(|end| end.node);
            let ends = link.ends.map(|end| {
                let node = topology[end.node].name.clone();
                LinkEnd { interface: names::interface(&node, end.port), station: node, port: end.port }
            });
            let name = match parallels(topology, first, second) {
                1 => format!("{}-{}", ends[0].station, ends[1].station),
                _ => ends[0].interface.clone(),
            };
            let port = usize::from(topology[first].switch().is_none());
            Self { name, ends, cut: None, port }
        };
        topology.links().map(|(_, found)| link(found)).collect()
    }

    fn joins(&self, wanted: &str) -> bool {
        let [first, second] = [0, 1].map(|end| self.ends[end].station.as_str());
        [[first, second], [second, first]].iter().any(|[from, to]| {
            let rest = wanted.strip_prefix(from).and_then(|rest| rest.strip_prefix(['-', ':']));
            rest == Some(to)
        })
    }

    /// Returns the end at which a [`Cut::Carrier`] sets the interface down.
    pub(crate) fn port(&self) -> &LinkEnd {
        &self.ends[self.port.min(1)]
    }
}

impl LinkEnd {
    /// Returns a script for `nft -f` in the end's namespace that drops outgoing frames, in the same way as
    /// random losses. The rule precedes the random losses, so that their counters do not count these
    /// frames.
    pub(crate) fn cut(&self) -> String {
        let Self { port, interface, .. } = self;
        let mut script = format!("add table netdev {TABLE}\n");
        let _ = writeln!(
            script,
            "add chain netdev {TABLE} port{port} {{ type filter hook egress device \"{interface}\" priority -1; }}\n\
             flush chain netdev {TABLE} port{port}\n\
             add rule netdev {TABLE} port{port} counter fwd to \"{LOST}\""
        );
        script
    }

    /// Returns a script for `nft -f` in the end's namespace that undoes [`cut`](Self::cut), even if the cut
    /// was only half done.
    pub(crate) fn repair(&self) -> String {
        let Self { port, interface, .. } = self;
        // The script first adds the table and chain, because deleting a chain that does not exist would fail.
        let mut script = format!("add table netdev {TABLE}\n");
        let _ = writeln!(
            script,
            "add chain netdev {TABLE} port{port} {{ type filter hook egress device \"{interface}\" priority -1; }}\n\
             flush chain netdev {TABLE} port{port}\n\
             delete chain netdev {TABLE} port{port}"
        );
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARALLEL: &str = r#"
name = "parallel"
[defaults]
rate = "1 Gbit/s"
[[switch]]
name = "a"
[[switch]]
name = "a-b"
[[host]]
name = "w0"
role = "worker"
[[host]]
name = "ps"
role = "server"
[[link]]
ends = ["w0", "a"]
[[link]]
ends = ["a", "a-b"]
[[link]]
ends = ["a", "a-b"]
[[link]]
ends = ["a-b", "ps"]
"#;

    fn found(wanted: &str) -> Result<String, String> {
        let links = Link::of(&Topology::parse(PARALLEL, "parallel.toml").unwrap());
        let place = find("lab", &links, wanted).map_err(|error| error.to_string())?;
        Ok(links[place].name.clone())
    }

    #[test]
    fn a_link_is_found_by_its_nodes_in_any_order_and_by_an_interface() {
        for name in ["w0-a", "w0:a", "a-w0", "a:w0", "w0-eth1", "a-eth1"] {
            assert_eq!(found(name).as_deref(), Ok("w0-a"), "{name}");
        }
        assert_eq!(found("ps-a-b").as_deref(), Ok("a-b-ps"), "a name may have a hyphen");
        assert_eq!(found("a-eth3").as_deref(), Ok("a-eth3"), "one of two between the same switches");
    }

    #[test]
    fn what_is_no_link_or_more_than_one_is_refused_with_those_that_there_are() {
        let unknown = found("w0-ps").unwrap_err();
        assert!(
            unknown.contains("\"w0-ps\"") && unknown.contains("w0-a, a-eth2, a-eth3, a-b-ps"),
            "{unknown}"
        );
        let several = found("a:a-b").unwrap_err();
        assert!(several.contains("a-eth2, a-eth3"), "{several}");
        assert!(found("").is_err() && found("-").is_err() && found("w0-a-").is_err());
    }

    #[test]
    fn a_host_keeps_its_interface_when_the_carrier_goes() {
        let links = Link::of(&Topology::parse(PARALLEL, "parallel.toml").unwrap());
        let ports: Vec<_> = links.iter().map(|link| link.port().interface.as_str()).collect();
        assert_eq!(ports, ["a-eth1", "a-eth2", "a-eth3", "a-b-eth3"]);
    }
}
