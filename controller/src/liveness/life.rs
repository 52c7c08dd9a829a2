//! The state of a part of the fabric.

use tributary_wire::SliceWidth;

/// The last known state of a part of the fabric, in order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    Alive,
    /// A link that loses the packets of slices of this width, although its MTU in the topology has room
    /// for them, and delivers shorter packets.
    ShortOfMtu(SliceWidth),
    /// Neither the part nor the nodes that would report on it send any reports.
    /// The part may work perfectly well.
    Silent,
    Dead,
}
