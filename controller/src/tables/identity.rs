//! Table `identity`: gives the switch its node id. It has no key, only a default action.

use tributary_wire::NodeId;

use super::definition::definitions;

definitions! {
    /// The place of the default action.
    Key = "identity" {} => SetIdentity;

    /// Makes the switch act on hops of `node`.
    /// With `None`, the switch acts on no hops and works as a plain Ethernet switch.
    SetIdentity = "set_identity" { node: Option<NodeId> }
}
