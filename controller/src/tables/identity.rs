//! Table `identity`: gives the switch its node id. It has no key, only a default action.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::NodeId;
use tributary_wire::constants::NO_NODE;

use super::schema::{ActionSchema, TableSchema};

const SET_IDENTITY: &str = "set_identity";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "identity",
    key: &[],
    actions: &[ActionSchema { name: SET_IDENTITY, parameters: &["node"] }],
};

/// Returns the entry that makes the switch act on hops of `node`.
/// With `None`, the switch acts on no hops and works as a plain Ethernet switch.
pub(crate) fn entry(node: Option<NodeId>) -> TableEntry {
    let action = ActionCall::new(SET_IDENTITY).with("node", node.map_or(NO_NODE, NodeId::get));
    TableEntry::default_of(SCHEMA.name).action(action)
}
