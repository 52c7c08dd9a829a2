//! Limits of a link's properties.

use std::ops::RangeInclusive;

/// The highest port number of a link.
/// The ports of v1model have 9 bits. The highest numbers are reserved for the controller and for dropped packets.
pub const MAX_PORT: u16 = 500;

/// The MTUs that a link may have, in bytes.
pub const MTUS: RangeInclusive<u16> = 576..=9000;

/// The MTU of a link if the file does not give one: Ethernet's 1,500 bytes.
pub(crate) const DEFAULT_MTU: u16 = 1500;
