//! Table `mac_forward`: forwards frames by their destination address, without aggregation.

use tributary_wire::MacAddr;

use super::definition::{actions, definitions};

definitions! {
    /// The destination address of a frame.
    Key = "mac_forward" { dst: MacAddr } => Action;

    /// Sends the frame out of this port.
    Forward = "forward" { port: u16 }

    /// Sends the frame to the ports of this multicast group, except to the ingress port.
    Broadcast = "broadcast" { group: u16 }

    /// Sends the frame to the controller, together with the number of its ingress port.
    ToController = "to_controller" {}
}

actions! {
    /// The action that a switch applies to a frame.
    Action { Forward, Broadcast, ToController }
}
