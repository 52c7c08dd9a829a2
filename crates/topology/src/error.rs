//! The errors of a topology file.

use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;

use thiserror::Error;

use crate::limits::{MAX_PORT, MTUS};
use crate::rate::{MAX_RATE, format_rate};

/// Why a topology file was refused: says where the problem is, and what to do.
#[derive(Debug, Error)]
pub enum TopologyError {
    /// The file cannot be read.
    #[error("{file}: cannot read the topology: {reason}")]
    Unreadable {
        /// The file's path.
        file: String,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The file was read, and something in it is wrong.
    #[error("{file}:{line}: {problem}")]
    Invalid {
        /// The file's path, or the name given to [`Topology::parse`](crate::Topology::parse).
        file: String,
        /// The line of the entry that is wrong, counted from 1.
        line: usize,
        /// The problem with the entry.
        problem: Problem,
    },
}

impl TopologyError {
    /// The line that is wrong; `None` if the file could not even be read.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid { line, .. } => Some(*line),
        }
    }

    /// The problem in the file; `None` if it could not even be read.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid { problem, .. } => Some(problem),
        }
    }
}

/// A problem with one entry of a topology file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The text is not TOML, has an unknown key, or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// A name that could be mistaken for a name with a port, or is not possible for an interface.
    #[error("bad name {0:?}: use 1 to 32 of the characters a-z, A-Z, 0-9, '-', '_' and '.'")]
    BadName(String),
    /// A text that would do something to a terminal that shows it.
    #[error(
        "control character in {0:?}: the topology's name and description are one line of plain text each"
    )]
    ControlCharacter(String),
    /// Two nodes have one name.
    #[error("duplicate name {name:?}: line {first} has it already; rename one of them")]
    DuplicateName {
        /// The name.
        name: String,
        /// The line that had it first.
        first: usize,
    },
    /// Two nodes have one node id.
    #[error("duplicate node id {id}: {holder:?} has it already; give another one or leave it away")]
    DuplicateId {
        /// The node id.
        id: u16,
        /// The node that had it first.
        holder: String,
    },
    /// Two hosts have one IP address.
    #[error("duplicate IP address {ip}: {holder:?} has it already; give another one or leave it away")]
    DuplicateIp {
        /// The address.
        ip: Ipv4Addr,
        /// The host that had it first.
        holder: String,
    },
    /// Two hosts have one MAC address.
    #[error("duplicate MAC address {mac}: {holder:?} has it already; give another one or leave it away")]
    DuplicateMac {
        /// The address.
        mac: String,
        /// The host that had it first.
        holder: String,
    },
    /// Two links are on one port of one switch.
    #[error(
        "duplicate port: {switch:?} has a link on port {port} already; give another one or leave it away"
    )]
    DuplicatePort {
        /// The switch.
        switch: String,
        /// The port.
        port: u16,
    },
    /// No node id, which has 16 bits and is not 0: that means "no node".
    #[error("bad node id {0}: use 1 to {most}, or leave it away", most = u16::MAX)]
    BadId(i64),
    /// More nodes than node ids or addresses.
    #[error("too many nodes: no {0} is left for this one")]
    TooManyNodes(&'static str),
    /// An invalid IP address, or one outside the hosts' network.
    #[error("bad IP address {0:?}: hosts share 10.0.0.0/16, so use 10.0.x.y, or leave it away")]
    BadIp(String),
    /// An invalid MAC address, or not a unicast one.
    #[error("bad MAC address {0:?}: use a unicast address such as 02:00:00:00:00:01, or leave it away")]
    BadMac(String),
    /// The P4Runtime address has no port.
    #[error("bad p4runtime address {0:?}: use host:port, such as 127.0.0.1:50051")]
    BadP4RuntimeAddress(String),
    /// An invalid rate.
    #[error(
        "bad rate {0:?}: use a number and bit/s, kbit/s, Mbit/s or Gbit/s, such as \"50 Mbit/s\", more than 0 and at \
         most {most}",
        most = format_rate(MAX_RATE)
    )]
    BadRate(String),
    /// An invalid load.
    #[error(
        "bad load {0:?}: use a number and bit/s, kbit/s, Mbit/s or Gbit/s, such as \"5 Mbit/s\", from 0 to the link's \
         rate"
    )]
    BadLoad(String),
    /// An MTU outside of [`MTUS`](crate::MTUS).
    #[error("bad mtu {0}: a link carries packets of {least} to {most} bytes", least = MTUS.start(), most = MTUS.end())]
    BadMtu(i64),
    /// More slots than can be counted, or fewer than none.
    #[error("bad number of slots {0}: use 0 to {most}, or leave it away", most = u32::MAX)]
    BadSlots(i64),
    /// Neither the link nor the defaults have a rate.
    #[error("the link has no rate: give it one, or all of them by rate = \"50 Mbit/s\" under [defaults]")]
    NoRate,
    /// A load that is more than the link's rate.
    #[error("the link's load, {load} bit/s, is more than its rate, {rate} bit/s: lower it")]
    LoadAboveRate {
        /// Its load in one direction, bit/s.
        load: u64,
        /// Its rate, bit/s.
        rate: u64,
    },
    /// A link to a node that does not exist.
    #[error("the link ends at {0:?}, but no switch or host has that name: add it or correct the name")]
    DanglingLink(String),
    /// A link from a switch to itself.
    #[error("the link joins {0:?} to itself: give it two ends")]
    SelfLink(String),
    /// A link without a switch.
    #[error("the link joins the hosts {0:?} and {1:?}: put a switch between them")]
    HostToHost(String, String),
    /// A host with two links, or more.
    #[error("host {host:?} has a link already, on line {first}: a host has one link")]
    SecondLink {
        /// The host.
        host: String,
        /// The line of its first link.
        first: usize,
    },
    /// The text after ':' is not a valid port.
    #[error("bad port in {end:?}: use name:port with a port from 1 to {most}, or only the name", most = MAX_PORT)]
    BadPort {
        /// The end as written in the file.
        end: String,
    },
    /// A port was given for a host.
    #[error("{0:?} is a host and has one interface: leave the port away")]
    PortOfHost(String),
    /// More links than ports.
    #[error("switch {switch:?} has too many links: it has {most} ports", most = MAX_PORT)]
    TooManyPorts {
        /// The switch.
        switch: String,
    },
    /// No host is the aggregation server.
    #[error("no aggregation server: give one host role = \"server\"")]
    NoServer,
    /// No host is a worker.
    #[error("no worker: give the hosts that train role = \"worker\"")]
    NoWorker,
    /// No links lead from a worker to the server.
    #[error("worker {worker:?} cannot reach the server {server:?}: add the link that is missing")]
    UnreachableWorker {
        /// The worker.
        worker: String,
        /// The server.
        server: String,
    },
}

/// A problem, and its place in the text.
pub(crate) type At = (Range<usize>, Problem);
