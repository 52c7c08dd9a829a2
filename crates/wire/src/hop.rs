//! One entry of the hop stack: the instruction for one node.

use crate::constants::{HOP_BYTES, MAX_CHILDREN};
use crate::error::WireError;
use crate::ids::NodeId;

/// The instruction for the switch (or the server) `node`: an entry of a packet's hop stack.
///
/// ```text
///  0       1       2       3       4           5
/// +-------+-------+-------+-------+-+---------+--------+
/// |     node      |  egress_port  |a| child   | fan_in |
/// +-------+-------+-------+-------+-+---------+--------+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// The switch or server that acts on this entry.
    pub node: NodeId,
    /// The port through which the packet leaves; not used in the server's entry.
    pub egress_port: u16,
    /// True if the node aggregates a GRADIENT, or releases the slot of a RESULT.
    pub aggregate: bool,
    /// The number of the sender among the node's children, from 0 and below [`MAX_CHILDREN`].
    pub child: u8,
    /// The number of children for which the node waits.
    /// Children are neighbours in the tree, not always workers.
    pub fan_in: u8,
}

impl Hop {
    /// Reads the entry at the start of `bytes`.
    ///
    /// # Errors
    /// [`WireError::Truncated`] if `bytes` is too short; [`WireError::Bad`] for node 0 or a child number of
    /// [`MAX_CHILDREN`] or more.
    pub fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let entry: &[u8; HOP_BYTES] = bytes.first_chunk().ok_or(WireError::Truncated {
            part: "hop entry",
            needed: HOP_BYTES,
            got: bytes.len(),
        })?;
        let node = u16::from_be_bytes([entry[0], entry[1]]);
        let child = entry[4] & 0x7f;
        if usize::from(child) >= MAX_CHILDREN {
            return Err(WireError::Bad { field: "hop child", value: child.into() });
        }
        Ok(Self {
            node: NodeId::new(node).ok_or(WireError::Bad { field: "hop node", value: node.into() })?,
            egress_port: u16::from_be_bytes([entry[2], entry[3]]),
            aggregate: entry[4] & 0x80 != 0,
            child,
            fan_in: entry[5],
        })
    }

    /// Returns the entry in wire format.
    pub fn to_bytes(self) -> [u8; HOP_BYTES] {
        let [node_hi, node_lo] = self.node.get().to_be_bytes();
        let [port_hi, port_lo] = self.egress_port.to_be_bytes();
        let how = u8::from(self.aggregate) << 7 | self.child & 0x7f;
        [node_hi, node_lo, port_hi, port_lo, how, self.fan_in]
    }
}
