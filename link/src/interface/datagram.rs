//! Frames with a UDP datagram: joining several into one, and splitting one into several.

use std::ops::Range;

use pnet_packet::ipv4::{self, Ipv4Packet, MutableIpv4Packet};
use pnet_packet::util;

use crate::MIN_FRAME_BYTES;

/// The headers in front of the payload: Ethernet, IPv4 without options, UDP.
pub(super) const HEADER_BYTES: usize = UDP_AT + UDP_BYTES;

/// Datagrams are joined only if they have these bytes of payload in common: receivers choose frames by bytes near the
/// beginning ([`pass_only`](crate::FramePort::pass_only)), and would see only those of the first.
const COMMON_PAYLOAD_BYTES: usize = 4;

/// The IPv4 header, behind the Ethernet header.
const IP_AT: usize = MIN_FRAME_BYTES;
pub(super) const UDP_AT: usize = IP_AT + IP_BYTES;
const IP_BYTES: usize = Ipv4Packet::minimum_packet_size();
const UDP_BYTES: usize = 8;
const TYPE_OF_IPV4: [u8; 2] = [0x08, 0x00];
/// Version 4, and a header of five words.
const IP_BEGIN: u8 = 0x45;
const PROTOCOL_UDP: u8 = 17;
/// "Don't fragment", and no fragment.
const WHOLE: [u8; 2] = [0x40, 0x00];

// The places of fields in a frame.
const TYPE: Range<usize> = 12..14;
const IP_LENGTH: Range<usize> = 16..18;
const IP_FRAGMENT: Range<usize> = 20..22;
const IP_PROTOCOL: usize = 23;
const ADDRESSES: Range<usize> = 26..34;
const UDP_LENGTH: Range<usize> = 38..40;
const UDP_CHECKSUM: Range<usize> = 40..42;
/// What datagrams of one stream have in common: everything but lengths and checksums.
const COMMON: [Range<usize>; 4] = [0..16, 18..24, 26..38, HEADER_BYTES..HEADER_BYTES + COMMON_PAYLOAD_BYTES];

/// Whether a frame carries UDP over IPv4, so that a checksum of zero means that there is none.
pub(super) fn is_udp(frame: &[u8]) -> bool {
    frame.get(TYPE) == Some(&TYPE_OF_IPV4)
        && frame.get(IP_AT) == Some(&IP_BEGIN)
        && frame.get(IP_PROTOCOL) == Some(&PROTOCOL_UDP)
        && frame.len() > HEADER_BYTES
}

/// Whether this frame would come out the same if the system joined it with others and split it off again: a whole
/// datagram without a UDP checksum, and nothing behind it. The system makes new lengths and checksums, which must not
/// repair wrong ones.
pub(super) fn is_plain(frame: &[u8]) -> bool {
    let Some((header, _)) = frame.split_first_chunk::<HEADER_BYTES>() else { return false };
    is_udp(frame)
        && frame.len() >= HEADER_BYTES + COMMON_PAYLOAD_BYTES
        && header[IP_FRAGMENT] == WHOLE
        && big_endian(&header[IP_LENGTH]) == frame.len() - IP_AT
        && big_endian(&header[UDP_LENGTH]) == frame.len() - UDP_AT
        && header[UDP_CHECKSUM] == [0, 0]
        && Ipv4Packet::new(&header[IP_AT..]).is_some_and(|ip| ipv4::checksum(&ip) == ip.get_checksum())
}

/// Whether two plain frames differ only in lengths and checksums.
pub(super) fn is_one_stream(one: &[u8], other: &[u8]) -> bool {
    COMMON.into_iter().all(|range| one.get(range.clone()) == other.get(range))
}

/// The number of bytes of payload, according to the header.
pub(super) fn payload(header: &[u8; HEADER_BYTES]) -> usize {
    big_endian(&header[UDP_LENGTH]).saturating_sub(UDP_BYTES)
}

/// Turns a header into that of a datagram with so many bytes of payload, without a UDP checksum.
pub(super) fn set_payload(header: &mut [u8; HEADER_BYTES], bytes: usize) {
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    header[UDP_LENGTH].copy_from_slice(&length(UDP_BYTES + bytes));
    header[UDP_CHECKSUM].fill(0);
    header[IP_LENGTH].copy_from_slice(&length(IP_BYTES + UDP_BYTES + bytes));
    if let Some(mut ip) = MutableIpv4Packet::new(&mut header[IP_AT..]) {
        let checksum = ipv4::checksum(&ip.to_immutable());
        ip.set_checksum(checksum);
    }
}

/// Leaves the UDP checksum to the system or the interface. They expect in its place the sum of the parts outside the
/// datagram: addresses, protocol and length.
pub(super) fn leave_checksum(header: &mut [u8; HEADER_BYTES]) {
    let mut pseudo = [0; 12];
    let (addresses, rest) = pseudo.split_at_mut(8);
    addresses.copy_from_slice(&header[ADDRESSES]);
    rest.copy_from_slice(&[0, PROTOCOL_UDP, header[UDP_LENGTH.start], header[UDP_LENGTH.start + 1]]);
    header[UDP_CHECKSUM].copy_from_slice(&(!internet_checksum(&pseudo)).to_be_bytes());
}

/// The Internet checksum (RFC 1071) of these bytes.
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    const SKIP_NONE: usize = usize::MAX;
    util::checksum(bytes, SKIP_NONE)
}

fn big_endian(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}
