//! A topology as an emulated network on one Linux machine.
//!
//! Each node of a [`Topology`](tributary_topology::Topology) gets a network namespace, and each link a veth pair with
//! the link's rate and, if wanted, random losses. A separate management network connects all nodes; the controller has
//! a namespace of its own at its hub. A program at a node sees only that node's interfaces: `leaf0-eth3` is port 3 of
//! `leaf0`.
//!
//! ```no_run
//! use tributary_lab::{CONTROLLER, Lab, LabOptions};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let topology = tributary_topology::Topology::load("topologies/three-tier-8.toml")?;
//! let options = LabOptions { loss: 0.001, ..LabOptions::new("demo") };
//! let lab = Lab::up(&topology, &options)?;
//! let controller = lab.management_address(CONTROLLER)?;
//! lab.command("w0", "ping")?.args(["-c", "1", &controller.to_string()]).status()?;
//! lab.down()?;
//! # Ok(())
//! # }
//! ```
//!
//! All of a lab is inside namespaces of its own, called `tributary.LAB.NODE`: nothing is added to the machine's own
//! network, and removing the namespaces removes everything. A record in `/run/tributary/lab` lets any process use a lab
//! or remove it, even after a crash; a folder beside it holds the files of the lab's programs, and is removed with the
//! lab. [`Daemons`] has the commands that start Tributary's daemons there.
//!
//! Faults can be injected: [`Lab::cut`] a link, [`Lab::kill`] a daemon, [`Lab::slow_down`] the processes at a station.
//!
//! It needs root, or [`rootless::enter`], and the Debian packages iproute2, ethtool and, for losses and cuts, nftables.
//!
//! Differences from real links: a lost frame takes no time on its link, since it is lost at the sending end, in front
//! of the queue. Links have no propagation delay (that would need netem, which not every kernel has). Sockets that
//! bypass the queueing discipline (`PACKET_QDISC_BYPASS`, AF_XDP) also bypass rate and losses.

mod bmv2;
mod daemons;
mod error;
mod host_names;
mod lab;
mod links;
mod names;
mod namespace;
mod options;
mod processes;
mod processors;
mod record;
pub mod rootless;
mod script;
mod setup;
mod slow;
mod station;
mod tools;

pub use daemons::{Daemons, SwitchProgram};
pub use error::LabError;
pub use lab::Lab;
pub use links::{Cut, Link, LinkEnd};
pub use options::{LabOptions, SwitchKind};
pub use slow::Slowdown;
pub use station::{CONTROLLER, Interface};
