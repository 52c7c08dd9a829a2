//! The state of a part of the fabric.

use tributary_wire::SliceWidth;

/// The last known state of a part of the fabric, ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    Alive,
    /// The link loses the packets of slices of this width, and delivers shorter packets.
    /// Its MTU in the topology would allow the lost packets.
    ShortOfMtu(SliceWidth),
    /// No reports arrive from the part or from the nodes that would report on it.
    /// The part may still work.
    Silent,
    Dead,
}
