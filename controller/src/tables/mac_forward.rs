//! `mac_forward`: where frames go that are not ours to aggregate.

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
    /// It goes out of this port.
    Forward(u16),
    /// It goes to this multicast group, but not back to where it came from.
    Broadcast(u16),
    /// It goes to the controller, with the port by which it came in.
    ToController,
}

/// Applies `action` to frames to `destination`.
pub(crate) fn entry(destination: MacAddr, action: Action) -> TableEntry {
    let action = match action {
        Action::Forward(port) => ActionCall::new(FORWARD).with("port", port),
        Action::Broadcast(group) => ActionCall::new(BROADCAST).with("group", group),
        Action::ToController => ActionCall::new(TO_CONTROLLER),
    };
    TableEntry::new(SCHEMA.name).exact("dst", mac_number(destination)).action(action)
}
