//! Frames with UDP datagrams: joining several frames into one, and splitting one frame into several.

use std::ops::Range;

use pnet_packet::ipv4::{self, Ipv4Packet, MutableIpv4Packet};
use pnet_packet::ipv6::Ipv6Packet;
use pnet_packet::udp::{self, UdpPacket};
use pnet_packet::util;

use super::vlan::{ADDRESS_BYTES, TAG_BYTES, Tag};
use crate::MIN_FRAME_BYTES;

/// The length of the headers of a datagram that ports may join: Ethernet, IPv4 without options, UDP.
pub(super) const HEADER_BYTES: usize = UDP_AT + UDP_BYTES;
/// The length of the longest headers of a datagram that ports may split: Ethernet with two tags, IPv4
/// with options, UDP.
const MOST_HEADER_BYTES: usize = MIN_FRAME_BYTES + 2 * TAG_BYTES + MOST_IPV4_BYTES + UDP_BYTES;

/// The number of payload bytes that datagrams must have in common to be joined. Receivers select
/// frames by bytes near the beginning ([`pass_only`](crate::FramePort::pass_only)), and see only these bytes of the
/// first datagram.
const COMMON_PAYLOAD_BYTES: usize = 4;

/// The offset of the IP header, which follows the Ethernet header.
const IP_AT: usize = MIN_FRAME_BYTES;
pub(super) const UDP_AT: usize = IP_AT + IPV4_BYTES;
const IPV4_BYTES: usize = Ipv4Packet::minimum_packet_size();
const MOST_IPV4_BYTES: usize = 60;
const IPV6_BYTES: usize = Ipv6Packet::minimum_packet_size();
pub(super) const UDP_BYTES: usize = UdpPacket::minimum_packet_size();
const TYPE_OF_IPV4: [u8; 2] = [0x08, 0x00];
const TYPE_OF_IPV6: [u8; 2] = [0x86, 0xdd];
const TYPES_OF_TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];
const PROTOCOL_UDP: u8 = 17;
/// The IPv4 fields that say "don't fragment" and that the packet is not a fragment.
const WHOLE: [u8; 2] = [0x40, 0x00];

// The positions of fields in a frame.
const TYPE: Range<usize> = 12..14;
const IPV4_LENGTH: Range<usize> = IP_AT + IPV4_LENGTH_AT..IP_AT + IPV4_ID_AT;
const IPV4_FRAGMENT: Range<usize> = IP_AT + IPV4_FRAGMENT_AT..IP_AT + IPV4_FRAGMENT_AT + 2;
const IPV4_ADDRESSES: Range<usize> = 26..34;
// The positions of fields in an IP or UDP header.
const IPV4_LENGTH_AT: usize = 2;
const IPV4_ID_AT: usize = 4;
const IPV4_FRAGMENT_AT: usize = 6;
const IPV4_PROTOCOL_AT: usize = 9;
const IPV6_LENGTH_AT: usize = 4;
const IPV6_PROTOCOL_AT: usize = 6;
const UDP_LENGTH_AT: usize = 4;
pub(super) const UDP_CHECKSUM_AT: usize = 6;
/// The byte ranges in which all datagrams of one stream must be equal: all bytes except lengths and
/// checksums.
const COMMON: [Range<usize>; 4] = [0..16, 18..24, 26..38, HEADER_BYTES..HEADER_BYTES + COMMON_PAYLOAD_BYTES];

/// The kind of IP header in front of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ip {
    /// IPv4, with the length of the header in bytes. A UDP checksum of zero means that the datagram has
    /// no checksum.
    V4(usize),
    /// IPv6 without extension headers. Every datagram has a checksum.
    V6,
}

impl Ip {
    /// Parses the IP header of a packet with this EtherType. `None` unless the packet carries a UDP
    /// datagram with a payload directly behind its IP header.
    fn under_udp(kind: [u8; 2], packet: &[u8]) -> Option<Self> {
        let begin = *packet.first()?;
        let (ip, protocol_at) = match (kind, begin >> 4) {
            (TYPE_OF_IPV4, 4) => (Self::V4(4 * usize::from(begin & 0xf)), IPV4_PROTOCOL_AT),
            (TYPE_OF_IPV6, 6) => (Self::V6, IPV6_PROTOCOL_AT),
            _ => return None,
        };
        let carries = packet.get(protocol_at) == Some(&PROTOCOL_UDP)
            && ip.header_bytes() >= IPV4_BYTES
            && packet.len() > ip.header_bytes() + UDP_BYTES;
        carries.then_some(ip)
    }

    fn header_bytes(self) -> usize {
        match self {
            Self::V4(bytes) => bytes,
            Self::V6 => IPV6_BYTES,
        }
    }
}

/// Returns true if a frame carries UDP over IPv4 without options. In such a frame, a checksum of zero
/// means that it has no checksum.
pub(super) fn may_lack_checksum(frame: &[u8]) -> bool {
    let packet = frame.get(IP_AT..).filter(|_| frame.get(TYPE) == Some(&TYPE_OF_IPV4));
    packet.and_then(|packet| Ip::under_udp(TYPE_OF_IPV4, packet)) == Some(Ip::V4(IPV4_BYTES))
}

/// Returns true if the system can join this frame with others and split them again without a change.
/// The frame must be a whole datagram over IPv4 without a UDP checksum, and nothing may follow the datagram. The system
/// recalculates lengths and checksums, so they must be correct; otherwise it would repair wrong ones.
pub(super) fn is_plain(frame: &[u8]) -> bool {
    let Some((header, _)) = frame.split_first_chunk::<HEADER_BYTES>() else { return false };
    let udp = &header[UDP_AT..];
    may_lack_checksum(frame)
        && frame.len() >= HEADER_BYTES + COMMON_PAYLOAD_BYTES
        && header[IPV4_FRAGMENT] == WHOLE
        && big_endian(&header[IPV4_LENGTH]) == frame.len() - IP_AT
        && big_endian(&udp[UDP_LENGTH_AT..UDP_CHECKSUM_AT]) == frame.len() - UDP_AT
        && udp[UDP_CHECKSUM_AT..] == [0, 0]
        && Ipv4Packet::new(&header[IP_AT..]).is_some_and(|ip| ipv4::checksum(&ip) == ip.get_checksum())
}

/// Returns true if two plain frames differ only in lengths and checksums.
pub(super) fn is_one_stream(one: &[u8], other: &[u8]) -> bool {
    COMMON.into_iter().all(|range| one.get(range.clone()) == other.get(range))
}

/// The headers of a datagram: Ethernet, up to two VLAN tags, IPv4 or IPv6, UDP.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headers {
    bytes: [u8; MOST_HEADER_BYTES],
    ip: Ip,
    ip_at: usize,
    /// True if each datagram has a UDP checksum. Over IPv6, every datagram has one.
    has_checksum: bool,
}

impl Headers {
    /// Parses the headers of a frame with at most one tag. `None` if the frame does not carry a UDP
    /// datagram directly behind its IP header.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let kind_at = |at: usize| frame.get(at..at + 2)?.first_chunk::<2>().copied();
        let outer = kind_at(TYPE.start)?;
        let tag_bytes = if TYPES_OF_TAGS.contains(&outer) { TAG_BYTES } else { 0 };
        let ip_at = IP_AT + tag_bytes;
        let ip = Ip::under_udp(kind_at(TYPE.start + tag_bytes)?, frame.get(ip_at..)?)?;
        let mut headers = Self { bytes: [0; MOST_HEADER_BYTES], ip, ip_at, has_checksum: ip == Ip::V6 };
        let len = headers.len();
        headers.bytes.get_mut(..len)?.copy_from_slice(frame.get(..len)?);
        Some(headers)
    }

    /// If `wanted`, gives each datagram a UDP checksum over IPv4, too.
    pub(super) fn with_checksum(mut self, wanted: bool) -> Self {
        self.has_checksum |= wanted;
        self
    }

    /// Inserts the VLAN tag, if there is one.
    pub(super) fn with_tag(mut self, tag: Option<Tag>) -> Self {
        if let Some(tag) = tag {
            let len = self.len();
            self.bytes.copy_within(ADDRESS_BYTES..len, ADDRESS_BYTES + TAG_BYTES);
            self.bytes[ADDRESS_BYTES..ADDRESS_BYTES + TAG_BYTES].copy_from_slice(&tag);
            self.ip_at += TAG_BYTES;
        }
        self
    }

    /// Returns the length of the headers in bytes.
    pub(super) fn len(&self) -> usize {
        self.udp_at() + UDP_BYTES
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Returns the number of payload bytes according to the UDP header.
    pub(super) fn payload(&self) -> usize {
        let length = self.udp_at() + UDP_LENGTH_AT;
        big_endian(&self.bytes[length..length + 2]).saturating_sub(UDP_BYTES)
    }

    /// Sets the headers for a datagram with `bytes` bytes of payload, without a UDP checksum.
    pub(super) fn set_payload(&mut self, bytes: usize) {
        let udp_at = self.udp_at();
        self.set(udp_at + UDP_LENGTH_AT, UDP_BYTES + bytes);
        self.set(udp_at + UDP_CHECKSUM_AT, 0);
        match self.ip {
            Ip::V4(header_bytes) => {
                self.set(self.ip_at + IPV4_LENGTH_AT, header_bytes + UDP_BYTES + bytes);
                self.finish_ipv4();
            }
            Ip::V6 => self.set(self.ip_at + IPV6_LENGTH_AT, UDP_BYTES + bytes),
        }
    }

    /// Changes the headers to the headers of the next datagram. Over IPv4 this increments the
    /// identification. It does not if the datagram must not be fragmented, because the identification then has no
    /// meaning (RFC 6864).
    pub(super) fn go_on(&mut self) {
        let (fragment_at, id_at) = (self.ip_at + IPV4_FRAGMENT_AT, self.ip_at + IPV4_ID_AT);
        if self.ip != Ip::V6 && self.bytes[fragment_at..fragment_at + 2] != WHOLE {
            let id = big_endian(&self.bytes[id_at..id_at + 2]);
            self.set(id_at, id + 1);
            self.finish_ipv4();
        }
    }

    /// Recalculates the checksum of the IPv4 header.
    fn finish_ipv4(&mut self) {
        if let Some(mut ip) = MutableIpv4Packet::new(&mut self.bytes[self.ip_at..]) {
            let checksum = ipv4::checksum(&ip.to_immutable());
            ip.set_checksum(checksum);
        }
    }

    /// Leaves the UDP checksum of a [plain](is_plain) datagram to the system or the interface. They
    /// expect the sum of the pseudo-header (addresses, protocol and length) in the checksum's place.
    pub(super) fn leave_checksum(&mut self) {
        let mut pseudo = [0; 12];
        let (addresses, rest) = pseudo.split_at_mut(8);
        addresses.copy_from_slice(&self.bytes[IPV4_ADDRESSES]);
        let [high, low] = ((UDP_BYTES + self.payload()) as u16).to_be_bytes();
        rest.copy_from_slice(&[0, PROTOCOL_UDP, high, low]);
        self.set(UDP_AT + UDP_CHECKSUM_AT, (!internet_checksum(&pseudo)).into());
    }

    /// Writes the headers to the beginning of `frame`, which already holds the payload behind them.
    /// Calculates the UDP checksum if the datagram must have one.
    pub(super) fn write(&self, frame: &mut [u8]) {
        if let Some(place) = frame.get_mut(..self.len()) {
            place.copy_from_slice(self.bytes());
        }
        if self.has_checksum
            && let Some(checksum) = self.checksum_of(frame)
        {
            let at = self.udp_at() + UDP_CHECKSUM_AT;
            frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Returns the UDP checksum of this frame, whose checksum field must be zero.
    fn checksum_of(&self, frame: &[u8]) -> Option<u16> {
        let packet = frame.get(self.ip_at..)?;
        let datagram = UdpPacket::new(frame.get(self.udp_at()..)?)?;
        let checksum = match self.ip {
            Ip::V4(_) => {
                let ip = Ipv4Packet::new(packet)?;
                udp::ipv4_checksum(&datagram, &ip.get_source(), &ip.get_destination())
            }
            Ip::V6 => {
                let ip = Ipv6Packet::new(packet)?;
                udp::ipv6_checksum(&datagram, &ip.get_source(), &ip.get_destination())
            }
        };
        Some(never_zero(checksum))
    }

    fn udp_at(&self) -> usize {
        self.ip_at + self.ip.header_bytes()
    }

    /// Writes the low 16 bits of `value` at `at`.
    fn set(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
    }
}

/// Returns the Internet checksum (RFC 1071) of these bytes.
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    const SKIP_NONE: usize = usize::MAX;
    util::checksum(bytes, SKIP_NONE)
}

/// Returns a checksum in the form in which it is sent. Zero is replaced by all ones, which is the
/// same number, because zero would mean that the datagram has no checksum (RFC 768).
pub(super) fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { u16::MAX } else { checksum }
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
