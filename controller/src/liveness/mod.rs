//! Liveness of the fabric: switches by their sessions, cables by probes.
//!
//! Every [`PROBE_INTERVAL`] the controller has each switch send a probe ([`tributary_wire::probe`]) out of each port
//! that has a cable. Hosts send their probes by themselves. Switches hand the probes that arrive to the controller, and
//! hosts report the probes that they received. So each direction of each cable shows that it works, and where it leads.
//! Every tenth probe is accompanied by a [long probe](long_probe_bytes): a cable whose interfaces carry less than the
//! topology says loses the frames of jobs and delivers all short ones.

mod cabling;
mod detector;
mod direction;
mod health;
mod life;
mod proven_paths;

use std::time::Duration;

use tributary_planner::widest_slices_over;
use tributary_topology::{Link, LinkKey, Topology};
use tributary_wire::SliceWidth;
use tributary_wire::frame::longest_frame;

pub(crate) use cabling::{Cabling, Miswiring, News};
pub(crate) use direction::End;
pub(crate) use health::{Doubt, Health};
pub(crate) use life::Life;
pub(crate) use proven_paths::ProvenPaths;

/// The time between two probes of a cable.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between long probes, in beats.
/// Long probes take time on a slow link, so that the loss of long probes alone is detected ten times later than a dead
/// cable.
pub(crate) const LONG_PROBES_EVERY: u32 = 10;

/// Time without a beat after which the controller itself has stood still.
/// A beat is due each [`PROBE_INTERVAL`].
pub(crate) const STANDSTILL: Duration = Duration::from_secs(1);

/// Returns the widest slices that jobs may send over a link whose switches take
/// slices of up to `widest`.
fn widest_sent_over(link: &Link, widest: SliceWidth) -> SliceWidth {
    widest_slices_over(link).min(widest)
}

/// Returns the length in bytes of the long probes of a link whose switches take slices of up to
/// `widest`: the length of the longest frames that jobs may send over it.
pub(crate) fn long_probe_bytes(link: &Link, widest: SliceWidth) -> usize {
    longest_frame(widest_sent_over(link, widest))
}

/// Names a cable, as text for users.
pub(crate) fn cable(topology: &Topology, link: LinkKey) -> String {
    let ends = topology[link].ends.map(|end| topology[end.node].name.as_str());
    format!("the cable between {}", ends.join(" and "))
}

/// Describes a cable that loses the packets of slices of this width, as text for users.
pub(crate) fn shortness(topology: &Topology, link: LinkKey, width: SliceWidth) -> String {
    format!(
        "packets of {} bytes get lost on {}, whose mtu is {} by the topology; short ones get through",
        width.mtu(),
        cable(topology, link),
        topology[link].mtu
    )
}

/// Describes a cable that does not lead where the topology says, as text for users.
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
