//! The topology of the network: one TOML file, which is validated and converted to a graph.
//!
//! The controller, the planner, the simulator, the tests and Mininet read this file:
//!
//! ```toml
//! name = "two-workers"
//! description = "Two workers and the aggregation server under one switch"
//!
//! [defaults]
//! rate = "50 Mbit/s"
//!
//! [[switch]]
//! name = "leaf"                  # optional: id, programmable = false, slots, p4runtime = "host:port"
//!
//! [[host]]
//! name = "w0"                    # optional: id, mac, ip
//! role = "worker"                # "worker": its rank is its place among them; "server"; or left away
//!
//! [[host]]
//! name = "ps"
//! role = "server"
//!
//! [[link]]
//! ends = ["leaf", "w0"]          # optional: rate; mtu; load, in use in both directions or in [this, that] one
//!
//! [[link]]
//! ends = ["leaf:7", "ps"]        # a port of the switch may be named; else the next free one from 1
//! ```
//!
//! Missing values are derived. Switches get the node ids from 1 on. Hosts get the node ids from 1001 on and the
//! addresses from 10.0.0.1/16 on. The MAC address of a host is 02:00 followed by its IP address.

mod addresses;
mod assign;
mod build;
mod error;
mod evolve;
mod fat_tree;
mod file;
mod forwarding;
mod graph;
mod limits;
mod links;
mod rate;

pub use error::{Problem, TopologyError};
pub use evolve::Evolution;
pub use fat_tree::{FatTree, FatTreeError};
pub use forwarding::Forwarding;
pub use graph::{
    End, Host, Link, LinkDirection, LinkKey, Neighbour, Node, NodeKey, NodeKind, Role, SUBNET_PREFIX_BITS,
    Switch, Topology,
};
pub use limits::{MAX_PORT, MTUS};
pub use rate::{MAX_RATE, format_rate, parse_rate};
