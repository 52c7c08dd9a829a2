//! What the kernel and a packet socket tell one another about a frame besides its bytes (`PACKET_VNET_HDR`): what is left to
//! be done with its checksum, and whether it is many datagrams in one.

use super::datagram::{self, HEADER_BYTES};

/// `struct virtio_net_hdr`, which comes in front of each frame: flags and kind, a byte each, and four numbers in the host's order.
pub(super) const OFFLOAD_BYTES: usize = 10;

/// The flag of a checksum that somebody has still to calculate.
const NEEDS_CHECKSUM: u8 = 1;
/// The kind of frame that is UDP datagrams of one length; the last one may be shorter.
const DATAGRAMS: u8 = 5;
/// Bytes from the UDP header to its checksum.
const UDP_CHECKSUM_AT: u16 = 6;
/// A frame of so many bytes at the most is worth a single piece of the kernel's memory.
const LONGEST_IN_ONE_PIECE: usize = 16 << 10;

/// What is said of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    flags: u8,
    kind: u8,
    /// Bytes of headers, which the kernel keeps in one piece of memory. It refuses a frame that is shorter.
    headers: u16,
    /// Bytes of payload of each datagram.
    segment: u16,
    /// From where on the checksum is calculated, and where behind that it belongs.
    checksum: (u16, u16),
}

impl Offload {
    /// Of a frame of so many bytes that is finished. All of it is called headers: the kernel would scatter one of a page or more,
    /// and gather it again where the interface cannot, which costs a copy.
    pub(super) fn single(len: usize) -> Self {
        let headers = if len <= LONGEST_IN_ONE_PIECE { len as u16 } else { 0 };
        Self { headers, ..Self::default() }
    }

    /// Of a frame that carries datagrams of so many bytes of payload each.
    pub(super) fn datagrams(segment: u16) -> Self {
        let checksum = (datagram::UDP_AT as u16, UDP_CHECKSUM_AT);
        Self { flags: NEEDS_CHECKSUM, kind: DATAGRAMS, headers: HEADER_BYTES as u16, segment, checksum }
    }

    pub(super) fn parse(bytes: [u8; OFFLOAD_BYTES]) -> Self {
        let [flags, kind, l0, l1, s0, s1, c0, c1, o0, o1] = bytes;
        let number = |a, b| u16::from_ne_bytes([a, b]);
        let (headers, segment) = (number(l0, l1), number(s0, s1));
        Self { flags, kind, headers, segment, checksum: (number(c0, c1), number(o0, o1)) }
    }

    pub(super) fn to_bytes(self) -> [u8; OFFLOAD_BYTES] {
        let [l0, l1] = self.headers.to_ne_bytes();
        let [s0, s1] = self.segment.to_ne_bytes();
        let ([c0, c1], [o0, o1]) = (self.checksum.0.to_ne_bytes(), self.checksum.1.to_ne_bytes());
        [self.flags, self.kind, l0, l1, s0, s1, c0, c1, o0, o1]
    }

    /// Bytes of payload of each datagram, if the frame is many in one.
    pub(super) fn segment(self) -> Option<usize> {
        (self.kind == DATAGRAMS && self.segment > 0).then_some(self.segment.into())
    }

    /// Does what is left to be done with the frame's checksum, if anything is. A datagram goes without one: it would guard nothing, since nobody
    /// has calculated it where the datagram was made.
    pub(super) fn finish(self, frame: &mut [u8]) {
        if self.flags & NEEDS_CHECKSUM == 0 {
            return;
        }
        let (start, at) = (usize::from(self.checksum.0), usize::from(self.checksum.1));
        let is_udp = datagram::is_udp(frame);
        let Some(covered) = frame.get_mut(start..) else { return };
        let checksum = if is_udp { 0 } else { datagram::internet_checksum(covered) };
        if let Some(place) = covered.get_mut(at..at + size_of_val(&checksum)) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
    }
}
