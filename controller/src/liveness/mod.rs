//! Liveness of the fabric: judges cables by probes, and stores the state of switches.
//!
//! `crate::switch` judges switches by their sessions.
//!
//! At every [`PROBE_INTERVAL`], the controller orders each switch to send a probe ([`tributary_wire::probe`]) out of
//! each port that has a cable. Hosts send their probes without orders. Switches pass the probes that they receive to
//! the controller, and hosts report the probes that they receive. The probes show for each direction of each cable that
//! it works and which ports it connects. In every tenth interval, there is also a [long probe](long_probe_bytes). It
//! detects a cable whose interfaces have a smaller MTU than the topology says. Such a cable loses the frames of jobs
//! and delivers all short frames.

mod cabling;
mod detector;
mod direction;
mod fabric_health;
mod life;
mod proven_paths;

use std::time::Duration;

use tributary_planner::widest_slices_over;
use tributary_topology::{Link, LinkKey, Topology};
use tributary_wire::SliceWidth;
use tributary_wire::frame::longest_frame;

pub(crate) use cabling::{Cabling, Miswiring, News};
pub(crate) use direction::End;
pub(crate) use fabric_health::{Doubt, Health};
pub(crate) use life::Life;
pub(crate) use proven_paths::ProvenPaths;

/// The time between two probes of a cable.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between long probes, in ticks.
/// Long probes take time on a slow link. The loss of only the long probes is therefore detected ten times later than a
/// dead cable.
pub(crate) const LONG_PROBES_EVERY: u32 = 10;

/// Time without a tick after which the controller itself counts as having stood still.
/// Normally, a tick ends every [`PROBE_INTERVAL`].
pub(crate) const STANDSTILL: Duration = Duration::from_secs(1);

/// Returns the widest slices that jobs may send over a link.
/// `widest` is the widest slice that the switches support.
fn widest_sent_over(link: &Link, widest: SliceWidth) -> SliceWidth {
    widest_slices_over(link).min(widest)
}

/// Returns the length of a link's long probes in bytes: the longest frame that jobs may send over the
/// link.
/// `widest` is the widest slice that the switches support.
pub(crate) fn long_probe_bytes(link: &Link, widest: SliceWidth) -> usize {
    longest_frame(widest_sent_over(link, widest))
}

/// Returns the name of a cable, as text for users.
pub(crate) fn cable(topology: &Topology, link: LinkKey) -> String {
    let ends = topology[link].ends.map(|end| topology[end.node].name.as_str());
    format!("the cable between {}", ends.join(" and "))
}

/// Describes a cable that loses the packets of slices of width `width`, as text for users.
pub(crate) fn shortness(topology: &Topology, link: LinkKey, width: SliceWidth) -> String {
    format!(
        "packets of {} bytes get lost on {}, whose mtu is {} by the topology; short ones get through",
        width.mtu(),
        cable(topology, link),
        topology[link].mtu
    )
}

/// Describes a cable that is not plugged in as the topology says, as text for users.
pub(crate) fn miswiring(topology: &Topology, Miswiring { at: (node, port), heard }: &Miswiring) -> String {
    let sender = topology.nodes().find(|(_, node)| node.id == heard.node);
    let sender = sender.map_or_else(|| format!("node {}", heard.node), |(_, node)| node.name.clone());
    let expected = topology
        .neighbour(*node, *port)
        .map(|via| format!("port {} of {}", via.remote_port, topology[via.node].name));
    format!(
        "port {port} of {} leads to port {} of {sender}, and not to {}",
        topology[*node].name,
        heard.port,
        expected.unwrap_or_else(|| "nothing, as the topology says".to_owned())
    )
}
