//! `tributary topology`: a network as its file describes it, with everything that the file leaves out.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tributary_topology::{
    End, FatTree, NodeKey, NodeKind, Role, SUBNET_PREFIX_BITS, Topology, format_rate, parse_rate,
};

use crate::daemons::service::WrongUse;
use tributary_cli::options::load_topology;
use tributary_cli::output;

/// Shows a network, or writes the file of a fat tree
///
/// The nodes with their ids and addresses, and the links with their ports and rates, as every other command sees them.
/// Nothing runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct TopologyArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    topology: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Print the topology file of a fat tree of switches with this many ports instead
    #[arg(long, value_name = "PORTS", conflicts_with_all = ["topology", "json"])]
    fat_tree: Option<usize>,

    /// Workers on the fat tree, spread evenly [default: one on every host but the server's]
    #[arg(long, value_name = "COUNT", requires = "fat_tree")]
    workers: Option<usize>,

    /// The rate of each of its links
    #[arg(long, requires = "fat_tree", default_value = "100 Gbit/s", value_parser = link_rate)]
    rate: String,
}

/// Parses a rate as a topology file writes it.
fn link_rate(text: &str) -> Result<String, String> {
    match parse_rate(text) {
        Some(rate) if rate > 0 => Ok(format_rate(rate)),
        _ => Err("not a rate such as \"100 Gbit/s\"".to_owned()),
    }
}

/// The network as JSON.
#[derive(Debug, Serialize)]
struct Network<'a> {
    name: &'a str,
    description: &'a str,
    /// In the order of the file.
    nodes: Vec<Node<'a>>,
    /// In the order of the file.
    links: Vec<Link<'a>>,
}

/// A switch or a host.
#[derive(Debug, Serialize)]
struct Node<'a> {
    name: &'a str,
    /// The node's id in hop entries; for a switch also the P4Runtime device id that the controller expects.
    id: u16,
    #[serde(flatten)]
    kind: Kind,
}

/// What differs between switches and hosts.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Kind {
    Switch {
        programmable: bool,
    },
    Host {
        role: Option<Role>,
        mac: String,
        ip: Ipv4Addr,
        /// Prefix length of the subnet that all hosts share.
        prefix_bits: u8,
    },
}

/// A full-duplex link.
#[derive(Debug, Serialize)]
struct Link<'a> {
    ends: [LinkEnd<'a>; 2],
    /// Rate of each direction, in bit/s.
    rate: u64,
}

#[derive(Debug, Serialize)]
struct LinkEnd<'a> {
    node: &'a str,
    port: u16,
}

/// Prints the network.
///
/// # Errors
/// The topology is wrong (file and line are named); there is no such fat tree.
pub(crate) fn run(args: &TopologyArgs) -> Result<()> {
    let text = match args.fat_tree {
        Some(ports) => fat_tree(ports, args.workers)?.to_toml(&args.rate),
        None => {
            let topology = load_topology(args.topology.as_deref())?;
            let network = Network::of(&topology);
            if args.json { serde_json::to_string_pretty(&network)? } else { network.text() }
        }
    };
    output::print(&text)
}

fn fat_tree(ports: usize, workers: Option<usize>) -> Result<FatTree, WrongUse> {
    let most = || FatTree::new(ports, 1).map_or(1, |tree| tree.hosts() - 1);
    FatTree::new(ports, workers.unwrap_or_else(most))
        .map_err(|error| WrongUse(format!("--fat-tree: {error}")))
}

impl<'a> Network<'a> {
    fn of(topology: &'a Topology) -> Self {
        let end = |end: End| LinkEnd { node: &topology[end.node].name, port: end.port };
        Self {
            name: topology.name(),
            description: topology.description(),
            nodes: topology.nodes().map(|(key, _)| Node::of(topology, key)).collect(),
            links: topology
                .links()
                .map(|(_, link)| Link { ends: link.ends.map(end), rate: link.rate })
                .collect(),
        }
    }

    fn text(&self) -> String {
        let mut nodes = output::table(&["node", "id", "what it is", "IP address", "MAC address"]);
        for node in &self.nodes {
            let (what, ip, mac) = node.kind.texts();
            nodes.add_row([node.name.to_owned(), node.id.to_string(), what.to_owned(), ip, mac]);
        }
        let mut links = output::table(&["link", "rate"]);
        for link in &self.links {
            let [a, b] = &link.ends;
            links.add_row([format!("{}:{} – {}:{}", a.node, a.port, b.node, b.port), format_rate(link.rate)]);
        }
        let what = output::sentences(&format!("{}: {}", self.name, self.description));
        format!("{what}\n{nodes}\n{links}")
    }
}

impl<'a> Node<'a> {
    fn of(topology: &'a Topology, key: NodeKey) -> Self {
        let node = &topology[key];
        let kind = match &node.kind {
            NodeKind::Switch(switch) => Kind::Switch { programmable: switch.programmable },
            NodeKind::Host(host) => Kind::Host {
                role: host.role,
                mac: host.mac.to_string(),
                ip: host.ip,
                prefix_bits: SUBNET_PREFIX_BITS,
            },
        };
        Self { name: &node.name, id: node.id.get(), kind }
    }
}

impl Kind {
    /// The node's kind, IP address and MAC address, for people.
    fn texts(&self) -> (&'static str, String, String) {
        match self {
            Self::Switch { programmable: true } => ("switch", String::new(), String::new()),
            Self::Switch { programmable: false } => {
                ("switch, not programmable", String::new(), String::new())
            }
            Self::Host { role, mac, ip, prefix_bits } => {
                let what = match role {
                    Some(Role::Worker) => "host, worker",
                    Some(Role::Server) => "host, server",
                    None => "host",
                };
                (what, format!("{ip}/{prefix_bits}"), mac.clone())
            }
        }
    }
}
