//! A topology as an emulated network on one Linux machine.
//!
//! Each node of a [`Topology`](tributary_topology::Topology) gets a network namespace, and each link a veth pair with
//! the link's rate and, if wanted, random losses. A separate management network connects all nodes. The controller has
//! a separate namespace, which contains the bridge of the management network. A program at a node sees only that node's
//! interfaces: `leaf0-eth3` is port 3 of `leaf0`.
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
//! A lab exists only in its own namespaces, which are called `tributary.LAB.NODE`. It adds nothing to the machine's own
//! network, and disappears when the namespaces are removed. A record in `/run/tributary/lab` lets any process use a lab
//! or remove it, even after a crash. A folder beside the record contains the files of the lab's programs, and is
//! removed with the lab. [`Daemons`] makes the commands that start Tributary's daemons there.
//!
//! Faults can be injected: [`Lab::cut`] a link, [`Lab::kill`] a daemon, [`Lab::slow_down`] the processes at a station.
//!
//! It needs root, or [`rootless::enter`], and the Debian packages iproute2, ethtool and, for losses and cuts, nftables.
//!
//! The links differ from real ones. A lost frame uses no capacity of its link, because it is dropped at the sending
//! end, before the queue. Links have no propagation delay (it would need netem, which some kernels lack). Sockets that
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
