//! Probes of cables: small frames that switches and hosts send through each of their ports.
//! A probe names its node and port. A receiver learns the port at the other end of its cable, and that the cable works
//! in that direction.
//!
//! | bytes | |
//! |---|---|
//! | 0..6 | destination: [`DESTINATION`], which no bridge forwards |
//! | 6..12 | source |
//! | 12..14 | EtherType: [`ETHER_TYPE`] |
//! | 14..18 | [`MAGIC`] |
//! | 18 | [`VERSION`] |
//! | 19 | 0 |
//! | 20..22 | node |
//! | 22..24 | port |
//!
//! The rest of the frame is 0, and receivers ignore it. It extends the frame to the minimum length of Ethernet. In long
//! probes it extends the frame to a given length, which shows if frames of that length pass the cable.

use crate::error::WireError;
use crate::frame::MacAddr;
use crate::ids::NodeId;

/// The address of the nearest bridge (IEEE 802.1Q).
/// No bridge forwards it, so a probe goes no further than its cable.
pub const DESTINATION: MacAddr = MacAddr(0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e);
/// The first EtherType that IEEE 802 reserves for local experiments.
pub const ETHER_TYPE: u16 = 0x88b5;
/// Distinguishes our probes from other uses of that EtherType: "TPRB".
pub const MAGIC: u32 = 0x5450_5242;
/// The version of the format.
pub const VERSION: u8 = 1;
/// The length of most probes in bytes. It is the minimum of Ethernet, without the frame check sequence.
pub const FRAME_BYTES: usize = 60;

/// The offsets of the fields.
mod field {
    use std::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHER_TYPE: Range<usize> = 12..14;
    pub(super) const MAGIC: Range<usize> = 14..18;
    pub(super) const VERSION: usize = 18;
    pub(super) const NODE: Range<usize> = 20..22;
    pub(super) const PORT: Range<usize> = 22..24;
    pub(super) const END: usize = PORT.end;
}

/// One end of a cable: the sender of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    /// The id of the sending switch or host in the topology.
    pub node: NodeId,
    /// The port through which the probe was sent, with its number in the topology.
    pub port: u16,
}

impl Probe {
    /// Returns the whole frame, with the source address `source`.
    pub fn to_frame(self, source: MacAddr) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[field::DESTINATION].copy_from_slice(&DESTINATION.octets());
        frame[field::SOURCE].copy_from_slice(&source.octets());
        frame[field::ETHER_TYPE].copy_from_slice(&ETHER_TYPE.to_be_bytes());
        frame[field::MAGIC].copy_from_slice(&MAGIC.to_be_bytes());
        frame[field::VERSION] = VERSION;
        frame[field::NODE].copy_from_slice(&self.node.get().to_be_bytes());
        frame[field::PORT].copy_from_slice(&self.port.to_be_bytes());
        frame
    }

    /// Returns the whole frame, padded with zeros to `bytes` bytes.
    pub fn to_long_frame(self, source: MacAddr, bytes: usize) -> Vec<u8> {
        let mut frame = self.to_frame(source).to_vec();
        frame.resize(bytes.max(FRAME_BYTES), 0);
        frame
    }

    /// Reads a received frame.
    ///
    /// # Errors
    /// [`WireError::Truncated`] or [`WireError::Bad`] if the frame is not a probe of this version.
    pub fn parse(frame: &[u8]) -> Result<Self, WireError> {
        let Some(head) = frame.first_chunk::<{ field::END }>() else {
            return Err(WireError::Truncated { part: "cable probe", needed: field::END, got: frame.len() });
        };
        // A probe to another address may have passed bridges, so it proves nothing about this cable.
        let nearest = number(&DESTINATION.octets());
        expect("destination of a cable probe", number(&head[field::DESTINATION]), nearest)?;
        expect("EtherType", number(&head[field::ETHER_TYPE]), ETHER_TYPE.into())?;
        expect("magic of a cable probe", number(&head[field::MAGIC]), MAGIC.into())?;
        expect("version of a cable probe", head[field::VERSION].into(), VERSION.into())?;
        let node = NodeId::new(number(&head[field::NODE]) as u16);
        Ok(Self {
            node: node.ok_or(WireError::Bad { field: "node of a cable probe", value: 0 })?,
            port: number(&head[field::PORT]) as u16,
        })
    }
}

/// Reads a big-endian number of up to eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn expect(field: &'static str, value: u64, expected: u64) -> Result<(), WireError> {
    if value == expected { Ok(()) } else { Err(WireError::Bad { field, value }) }
}
