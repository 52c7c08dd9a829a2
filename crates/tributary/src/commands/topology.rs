//! `tributary topology`: shows a network with all values that its file leaves out.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tributary_topology::{
    End, FatTree, MAX_RATE, NodeKey, NodeKind, Role, SUBNET_PREFIX_BITS, Topology, format_rate, parse_rate,
};

use crate::daemons::service::WrongUse;
use tributary_cli::options::load_topology;
use tributary_cli::output;

/// Shows a network, or writes the file of a fat tree
///
/// The command prints the nodes with their ids and addresses, and the links with their ports and rates, as all other
/// commands use them. It starts nothing.
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

    /// Rate of each link of the fat tree
    #[arg(long, requires = "fat_tree", default_value = "100 Gbit/s", value_parser = link_rate)]
    rate: String,
}

/// Parses a rate in the format of a topology file.
fn link_rate(text: &str) -> Result<String, String> {
    match parse_rate(text) {
        Some(rate) if rate > 0 => Ok(format_rate(rate)),
        _ => Err(format!(
            "a rate above 0 is needed, such as \"100 Gbit/s\", at most {}",
            format_rate(MAX_RATE)
        )),
    }
}

/// The network as JSON.
#[derive(Debug, Serialize)]
struct Network<'a> {
    name: &'a str,
    description: &'a str,
    /// The nodes in the order of the file.
    nodes: Vec<Node<'a>>,
    /// The links in the order of the file.
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

/// Fields that differ between switches and hosts.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Kind {
    Switch {
        programmable: bool,
        /// The number of slots, if the file gives one. Otherwise the switch has the number of slots of its
        /// program.
        #[serde(skip_serializing_if = "Option::is_none")]
        slots: Option<u32>,
        /// The address of the switch's P4Runtime server, if the file gives one.
        #[serde(skip_serializing_if = "Option::is_none")]
        p4runtime: Option<String>,
    },
    Host {
        role: Option<Role>,
        mac: String,
        ip: Ipv4Addr,
        /// Prefix length of the subnet to which all hosts belong.
        prefix_bits: u8,
    },
}

/// A full-duplex link.
#[derive(Debug, Serialize)]
struct Link<'a> {
    ends: [LinkEnd<'a>; 2],
    /// Rate of each direction, in bit/s.
    rate: u64,
    /// The longest IPv4 packet that the link carries, in bytes.
    mtu: u16,
    /// The link's present load, in bit/s: from the first end to the second, and back.
    load: [u64; 2],
}

#[derive(Debug, Serialize)]
struct LinkEnd<'a> {
    node: &'a str,
    port: u16,
}

/// Prints the network.
///
/// # Errors
/// The topology is invalid (the error names the file and the line), or a fat tree of this size does not
/// exist.
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
                .map(|(_, link)| Link {
                    ends: link.ends.map(end),
                    rate: link.rate,
                    mtu: link.mtu,
                    load: link.load,
                })
                .collect(),
        }
    }

    fn text(&self) -> String {
        let title = if self.description.is_empty() { "" } else { ": " };
        let what = output::sentences(&format!("{}{title}{}", self.name, self.description));
        format!("{what}\n{}\n{}", self.node_table(), self.link_table())
    }

    fn node_table(&self) -> comfy_table::Table {
        let mut table = output::table(&["node", "id", "kind", "IP address", "MAC address", "P4Runtime"]);
        let mut any_server = false;
        for node in &self.nodes {
            let (what, ip, mac) = node.kind.texts();
            let p4runtime = node.kind.p4runtime();
            any_server |= p4runtime.is_some();
            let p4runtime = p4runtime.unwrap_or_default().to_owned();
            table.add_row([node.name.to_owned(), node.id.to_string(), what, ip, mac, p4runtime]);
        }
        hide_last_column_unless(any_server, &mut table);
        table
    }

    fn link_table(&self) -> comfy_table::Table {
        let mut table = output::table(&["link", "rate", "MTU", "load, and back"]);
        let mut any_load = false;
        for Link { ends: [a, b], rate, mtu, load } in &self.links {
            let is_loaded = *load != [0, 0];
            any_load |= is_loaded;
            let load = if is_loaded { load.map(format_rate).join(", ") } else { String::new() };
            let name = format!("{}:{} – {}:{}", a.node, a.port, b.node, b.port);
            table.add_row([name, format_rate(*rate), mtu.to_string(), load]);
        }
        hide_last_column_unless(any_load, &mut table);
        table
    }
}

/// Hides a column that would be empty.
fn hide_last_column_unless(any: bool, table: &mut comfy_table::Table) {
    let last = table.column_count().saturating_sub(1);
    if let Some(column) = table.column_mut(last).filter(|_| !any) {
        column.set_constraint(comfy_table::ColumnConstraint::Hidden);
    }
}

impl<'a> Node<'a> {
    fn of(topology: &'a Topology, key: NodeKey) -> Self {
        let node = &topology[key];
        let kind = match &node.kind {
            NodeKind::Switch(switch) => Kind::Switch {
                programmable: switch.programmable,
                slots: switch.slots,
                p4runtime: switch.p4runtime.clone(),
            },
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
    /// Returns the node's kind, IP address and MAC address, as text for users.
    fn texts(&self) -> (String, String, String) {
        match self {
            Self::Switch { programmable: false, .. } => {
                ("switch, not programmable".to_owned(), String::new(), String::new())
            }
            Self::Switch { slots: None, .. } => ("switch".to_owned(), String::new(), String::new()),
            Self::Switch { slots: Some(slots), .. } => {
                (format!("switch, {slots} slots"), String::new(), String::new())
            }
            Self::Host { role, mac, ip, prefix_bits } => {
                let what = match role {
                    Some(Role::Worker) => "host, worker",
                    Some(Role::Server) => "host, server",
                    None => "host",
                };
                (what.to_owned(), format!("{ip}/{prefix_bits}"), mac.clone())
            }
        }
    }

    /// Returns the address of a switch's P4Runtime server, if the file gives one.
    fn p4runtime(&self) -> Option<&str> {
        match self {
            Self::Switch { p4runtime, .. } => p4runtime.as_deref(),
            Self::Host { .. } => None,
        }
    }
}
