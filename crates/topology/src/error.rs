//! The errors of a topology file.

use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;

use thiserror::Error;

use crate::limits::{MAX_PORT, MTUS};
use crate::rate::{MAX_RATE, format_rate};

/// Reasons why a topology file was refused. The message says where the problem is, and what to do.
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
    /// The file was read, but one of its entries is wrong.
    #[error("{file}:{line}: {problem}")]
    Invalid {
        /// The file's path, or the name given to [`Topology::parse`](crate::Topology::parse).
        file: String,
        /// The line of the wrong entry, counted from 1.
        line: usize,
        /// The problem with the entry.
        problem: Problem,
    },
}

impl TopologyError {
    /// Returns the line of the wrong entry; `None` if the file could not be read.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid { line, .. } => Some(*line),
        }
    }

    /// Returns the problem in the file; `None` if the file could not be read.
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
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("{0}")]
    Syntax(String),
    /// The name could be mistaken for a name with a port, or cannot be used in the name of an interface.
    #[error("bad name {0:?}: use 1 to 32 of the characters a-z, A-Z, 0-9, '-', '_' and '.'")]
    BadName(String),
    /// The text contains characters that would control a terminal that displays it.
    #[error(
        "control character in {0:?}: the topology's name and description are one line of plain text each"
    )]
    ControlCharacter(String),
    /// Two nodes have the same name.
    #[error("duplicate name {name:?}: line {first} has it already; rename one of them")]
    DuplicateName {
        /// The name.
        name: String,
        /// The line of the first node with the name.
        first: usize,
    },
    /// Two nodes have the same node id.
    #[error("duplicate node id {id}: {holder:?} has it already; give another one or leave it away")]
    DuplicateId {
        /// The node id.
        id: u16,
        /// The first node with the id.
        holder: String,
    },
    /// Two hosts have the same IP address.
    #[error("duplicate IP address {ip}: {holder:?} has it already; give another one or leave it away")]
    DuplicateIp {
        /// The address.
        ip: Ipv4Addr,
        /// The first host with the address.
        holder: String,
    },
    /// Two hosts have the same MAC address.
    #[error("duplicate MAC address {mac}: {holder:?} has it already; give another one or leave it away")]
    DuplicateMac {
        /// The address.
        mac: String,
        /// The first host with the address.
        holder: String,
    },
    /// Two links use the same port of a switch.
    #[error(
        "duplicate port: {switch:?} has a link on port {port} already; give another one or leave it away"
    )]
    DuplicatePort {
        /// The switch.
        switch: String,
        /// The port.
        port: u16,
    },
    /// The number is not a node id. Node ids have 16 bits, and 0 means "no node".
    #[error("bad node id {0}: use 1 to {most}, or leave it away", most = u16::MAX)]
    BadId(i64),
    /// There are more nodes than node ids or addresses.
    #[error("too many nodes: no {0} is left for this one")]
    TooManyNodes(&'static str),
    /// The text is not an IP address in the hosts' network.
    #[error("bad IP address {0:?}: hosts share 10.0.0.0/16, so use 10.0.x.y, or leave it away")]
    BadIp(String),
    /// The text is not a unicast MAC address.
    #[error("bad MAC address {0:?}: use a unicast address such as 02:00:00:00:00:01, or leave it away")]
    BadMac(String),
    /// The P4Runtime address has no port.
    #[error("bad p4runtime address {0:?}: use host:port, such as 127.0.0.1:50051")]
    BadP4RuntimeAddress(String),
    /// The rate is not valid.
    #[error(
        "bad rate {0:?}: use a number and bit/s, kbit/s, Mbit/s or Gbit/s, such as \"50 Mbit/s\", more than 0 and at \
         most {most}",
        most = format_rate(MAX_RATE)
    )]
    BadRate(String),
    /// The load is not valid.
    #[error(
        "bad load {0:?}: use a number and bit/s, kbit/s, Mbit/s or Gbit/s, such as \"5 Mbit/s\", from 0 to the link's \
         rate"
    )]
    BadLoad(String),
    /// The MTU is not in the range [`MTUS`](crate::MTUS).
    #[error("bad mtu {0}: a link carries packets of {least} to {most} bytes", least = MTUS.start(), most = MTUS.end())]
    BadMtu(i64),
    /// The number of slots is negative or does not fit 32 bits.
    #[error("bad number of slots {0}: use 0 to {most}, or leave it away", most = u32::MAX)]
    BadSlots(i64),
    /// Neither the link nor the defaults give a rate.
    #[error("the link has no rate: give it one, or all of them by rate = \"50 Mbit/s\" under [defaults]")]
    NoRate,
    /// The load of the link is more than the rate of the link.
    #[error("the link's load, {load} bit/s, is more than its rate, {rate} bit/s: lower it")]
    LoadAboveRate {
        /// The link's load in one direction, in bit/s.
        load: u64,
        /// The link's rate, in bit/s.
        rate: u64,
    },
    /// The link ends at a node that does not exist.
    #[error("the link ends at {0:?}, but no switch or host has that name: add it or correct the name")]
    DanglingLink(String),
    /// The link connects a node to itself.
    #[error("the link joins {0:?} to itself: give it two ends")]
    SelfLink(String),
    /// The link connects two hosts.
    #[error("the link joins the hosts {0:?} and {1:?}: put a switch between them")]
    HostToHost(String, String),
    /// The host has more than one link.
    #[error("host {host:?} has a link already, on line {first}: a host has one link")]
    SecondLink {
        /// The host.
        host: String,
        /// The line of the host's first link.
        first: usize,
    },
    /// The text after ':' is not a valid port.
    #[error("bad port in {end:?}: use name:port with a port from 1 to {most}, or only the name", most = MAX_PORT)]
    BadPort {
        /// The end of the link, as written in the file.
        end: String,
    },
    /// The link gives a port for a host.
    #[error("{0:?} is a host and has one interface: leave the port away")]
    PortOfHost(String),
    /// The switch has more links than ports.
    #[error("switch {switch:?} has too many links: it has {most} ports", most = MAX_PORT)]
    TooManyPorts {
        /// The switch.
        switch: String,
    },
    /// No host has the role of a server.
    #[error("no aggregation server: give one host role = \"server\"")]
    NoServer,
    /// No host has the role of a worker.
    #[error("no worker: give the hosts that train role = \"worker\"")]
    NoWorker,
    /// No path leads from the worker to the server.
    #[error("worker {worker:?} cannot reach the server {server:?}: add the link that is missing")]
    UnreachableWorker {
        /// The worker.
        worker: String,
        /// The server.
        server: String,
    },
}

/// A problem and its position in the text.
pub(crate) type At = (Range<usize>, Problem);
