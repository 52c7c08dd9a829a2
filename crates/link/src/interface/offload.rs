//! The header that the kernel and a packet socket exchange with each frame (`PACKET_VNET_HDR`). It
//! describes the datagrams in a joined frame, and the work that is left on the frame's checksum.

use super::datagram::{self, HEADER_BYTES, Headers, UDP_AT, UDP_BYTES, UDP_CHECKSUM_AT};

/// The size of `struct virtio_net_hdr`, which precedes each frame. It has flags and kind, one byte
/// each, and four 16-bit numbers in the host's byte order.
pub(super) const OFFLOAD_BYTES: usize = 10;

/// The flag of a frame whose checksum must still be calculated.
const NEEDS_CHECKSUM: u8 = 1;
/// The kind of a frame that consists of UDP datagrams of equal length; the last datagram may be
/// shorter.
const DATAGRAMS: u8 = 5;
/// The longest frame, in bytes, for which one contiguous piece of kernel memory is faster.
const LONGEST_IN_ONE_PIECE: usize = 16 << 10;

/// The layout of the datagrams of one stream in one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segments {
    /// The number of header bytes in front of each datagram.
    pub(super) headers: usize,
    /// The number of payload bytes of each datagram; the last datagram may have fewer. At least 1.
    pub(super) payload: usize,
}

impl Segments {
    /// Returns the number of datagrams in a frame of `len` bytes.
    pub(super) fn within(self, len: usize) -> usize {
        len.saturating_sub(self.headers).div_ceil(self.payload)
    }
}

/// The offload information about a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    flags: u8,
    kind: u8,
    /// The number of header bytes, which the kernel keeps in one piece of memory. The kernel refuses
    /// frames that are shorter.
    headers: u16,
    /// The number of payload bytes of each datagram.
    segment: u16,
    /// The offset at which the checksum's range begins, and the offset of the checksum in that range.
    checksum: (u16, u16),
}

impl Offload {
    /// Returns the information about a finished frame of `len` bytes. A frame of up to
    /// `LONGEST_IN_ONE_PIECE` bytes counts as headers in full. Otherwise the kernel would scatter a frame of a page or
    /// more over several pieces of memory. If the interface cannot send such a frame, the kernel would have to copy it.
    pub(super) fn single(len: usize) -> Self {
        let headers = if len <= LONGEST_IN_ONE_PIECE { len as u16 } else { 0 };
        Self { headers, ..Self::default() }
    }

    /// Returns the information about a frame of datagrams with `segment` bytes of payload each.
    pub(super) fn datagrams(segment: u16) -> Self {
        let checksum = (UDP_AT as u16, UDP_CHECKSUM_AT as u16);
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

    /// Returns the layout of the datagrams if the frame consists of many; `frame` must at least contain
    /// the headers.
    ///
    /// If the datagrams' checksums are left to do, the information contains the length of the headers. Otherwise a
    /// receiving interface has joined the datagrams and verified their checksums (ethtool's `rx-gro-list`), and the
    /// headers must be parsed.
    pub(super) fn segments(self, frame: &[u8]) -> Option<Segments> {
        if self.kind != DATAGRAMS || self.segment == 0 {
            return None;
        }
        let headers = match self.needs_checksum() {
            true => usize::from(self.checksum.0) + UDP_BYTES,
            false => Headers::of(frame)?.len(),
        };
        Some(Segments { headers, payload: self.segment.into() })
    }

    /// Returns true if the frame's checksum must still be calculated.
    pub(super) fn needs_checksum(self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }

    /// Finishes the frame's checksum if it must still be calculated. A UDP datagram over IPv4 gets a
    /// checksum of zero, which means none. A checksum would protect nothing, because the sender of the datagram has not
    /// calculated one.
    pub(super) fn finish(self, frame: &mut [u8]) {
        if !self.needs_checksum() {
            return;
        }
        let (start, at) = (usize::from(self.checksum.0), usize::from(self.checksum.1));
        let may_lack = datagram::may_lack_checksum(frame);
        let Some(covered) = frame.get_mut(start..) else { return };
        let checksum = if may_lack { 0 } else { datagram::never_zero(datagram::internet_checksum(covered)) };
        if let Some(place) = covered.get_mut(at..at + size_of_val(&checksum)) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
    }
}
