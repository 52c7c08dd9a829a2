//! Outages: parts of the network that die, and the times at which they die.

use tributary_topology::{LinkKey, NodeKey};

/// A part that can die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Down {
    /// A switch or a host, with all its links.
    Node(NodeKey),
    /// A link, in both directions.
    Link(LinkKey),
}

/// The outage of a part: it dies and comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// The part.
    pub what: Down,
    /// The time at which the part dies, in seconds.
    pub from: f64,
    /// The time at which the part is back, in seconds.
    pub until: f64,
}
