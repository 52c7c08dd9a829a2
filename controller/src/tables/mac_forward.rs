//! Table `mac_forward`: forwards frames by their destination address, without aggregation.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::MacAddr;

use super::schema::{ActionSchema, TableSchema, mac_number};

const FORWARD: &str = "forward";
const BROADCAST: &str = "broadcast";
const TO_CONTROLLER: &str = "to_controller";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "mac_forward",
    key: &["dst"],
    actions: &[
        ActionSchema { name: FORWARD, parameters: &["port"] },
        ActionSchema { name: BROADCAST, parameters: &["group"] },
        ActionSchema { name: TO_CONTROLLER, parameters: &[] },
    ],
};

/// The action that a switch applies to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sends the frame out of this port.
    Forward(u16),
    /// Sends the frame to the ports of this multicast group, except to the ingress port.
    Broadcast(u16),
    /// Sends the frame to the controller, together with the number of its ingress port.
    ToController,
}

/// Returns an entry that applies `action` to frames with this `destination`.
pub(crate) fn entry(destination: MacAddr, action: Action) -> TableEntry {
    let action = match action {
        Action::Forward(port) => ActionCall::new(FORWARD).with("port", port),
        Action::Broadcast(group) => ActionCall::new(BROADCAST).with("group", group),
        Action::ToController => ActionCall::new(TO_CONTROLLER),
    };
    TableEntry::new(SCHEMA.name).exact("dst", mac_number(destination)).action(action)
}
