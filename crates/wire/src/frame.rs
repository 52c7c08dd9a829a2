//! Ethernet / IPv4 / UDP around an INA message, built and parsed with pnet.

use std::net::Ipv4Addr;

use pnet_packet::ethernet::{EtherTypes, EthernetPacket, MutableEthernetPacket};
use pnet_packet::ip::IpNextHeaderProtocols;
use pnet_packet::ipv4::{self, Ipv4Packet, MutableIpv4Packet};
use pnet_packet::udp::{MutableUdpPacket, UdpPacket};

pub use pnet_base::MacAddr;

use crate::constants::{INA_UDP_PORT, MAX_HOPS};
use crate::error::WireError;
use crate::ids::JobId;
use crate::message::{JOB_AT, Message, MessageView, message_len};
use crate::width::SliceWidth;

const ETHERNET_BYTES: usize = EthernetPacket::minimum_packet_size();
const IPV4_BYTES: usize = Ipv4Packet::minimum_packet_size();
const UDP_BYTES: usize = UdpPacket::minimum_packet_size();
/// The number of bytes in front of the INA message.
pub const ENCAPSULATION_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;
/// The time to live of the packets that hosts send. Each switch decrements it.
pub const TTL: u8 = 64;
const IPV4_WORDS: u8 = (IPV4_BYTES / 4) as u8;

/// The source and destination of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Ethernet source.
    pub source_mac: MacAddr,
    /// Ethernet destination: the address of the server, of a worker, or of the job's multicast group.
    pub destination_mac: MacAddr,
    /// IPv4 source.
    pub source_ip: Ipv4Addr,
    /// IPv4 destination.
    pub destination_ip: Ipv4Addr,
}

impl SliceWidth {
    /// Returns the length of the longest IPv4 packet with a slice of this width, in bytes.
    /// It is a GRADIENT with a full hop stack. The MTU of links must be at least this length.
    pub const fn mtu(self) -> usize {
        IPV4_BYTES + UDP_BYTES + message_len(MAX_HOPS as usize, self.bytes())
    }

    /// Returns the widest slice whose packets fit links of this `mtu` (in bytes, from the IPv4 header on).
    /// `None` if not even a slice of the [narrowest](Self::NARROWEST) width fits.
    pub fn widest_within(mtu: usize) -> Option<Self> {
        Self::all().rev().find(|width| width.mtu() <= mtu)
    }
}

/// Returns the length in bytes of the longest frame with a slice of this `width`.
pub const fn longest_frame(width: SliceWidth) -> usize {
    ETHERNET_BYTES + width.mtu()
}

/// Returns the length in bytes of the frame around `message`.
pub fn frame_len(message: &Message<'_>) -> usize {
    ENCAPSULATION_BYTES + message.len()
}

/// Returns marks that are in every frame of a job that [`FrameView::parse`] accepts, and in hardly any
/// other frame.
/// Each mark is the offset and the value of two bytes. They are for code that sorts frames before it parses them.
pub fn marks(job: JobId) -> [(usize, u16); 3] {
    [
        (ETHERNET_BYTES - 2, EtherTypes::Ipv4.0),
        (ETHERNET_BYTES + IPV4_BYTES + 2, INA_UDP_PORT),
        (ENCAPSULATION_BYTES + JOB_AT, job.get()),
    ]
}

/// Returns a mark of the frames of one stripe of a job with several stripes: the UDP source port.
pub fn mark_of_stripe(stripe: u32) -> (usize, u16) {
    (ETHERNET_BYTES + IPV4_BYTES, port_of_stripe(stripe))
}

/// Returns the UDP source port of the frames of a stripe. Hosts and network cards distribute frames to
/// threads by it.
pub fn port_of_stripe(stripe: u32) -> u16 {
    INA_UDP_PORT.wrapping_add(stripe as u16)
}

/// Writes a whole frame to the start of `out` and returns its length. Its UDP source port is
/// [`INA_UDP_PORT`].
///
/// # Errors
/// As for [`emit_from`].
pub fn emit(header: &FrameHeader, message: &Message<'_>, out: &mut [u8]) -> Result<usize, WireError> {
    emit_from(INA_UDP_PORT, header, message, out)
}

/// Writes a whole frame with this UDP source port to the start of `out` and returns its length.
///
/// # Errors
/// [`WireError::Truncated`] if `out` is shorter than [`frame_len`]; [`WireError::Bad`] if the frame is too long for
/// IPv4; also the errors of [`Message::emit`].
pub fn emit_from(
    port: u16,
    header: &FrameHeader,
    message: &Message<'_>,
    out: &mut [u8],
) -> Result<usize, WireError> {
    let (len, got) = (frame_len(message), out.len());
    let truncated = WireError::Truncated { part: "buffer", needed: len, got };
    let out = out.get_mut(..len).ok_or(truncated)?;
    let too_long = |_| WireError::Bad { field: "length", value: len as u64 };
    let ip_len = u16::try_from(len - ETHERNET_BYTES).map_err(too_long)?;
    let (ethernet_bytes, rest) = out.split_at_mut(ETHERNET_BYTES);
    let (ip_bytes, rest) = rest.split_at_mut(IPV4_BYTES);
    let (udp_bytes, payload) = rest.split_at_mut(UDP_BYTES);

    let mut ethernet = MutableEthernetPacket::new(ethernet_bytes).ok_or(truncated)?;
    ethernet.set_source(header.source_mac);
    ethernet.set_destination(header.destination_mac);
    ethernet.set_ethertype(EtherTypes::Ipv4);

    ip_bytes.fill(0);
    let mut ip = MutableIpv4Packet::new(ip_bytes).ok_or(truncated)?;
    ip.set_version(4);
    ip.set_header_length(IPV4_WORDS);
    ip.set_total_length(ip_len);
    ip.set_flags(ipv4::Ipv4Flags::DontFragment);
    ip.set_ttl(TTL);
    ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
    ip.set_source(header.source_ip);
    ip.set_destination(header.destination_ip);
    let checksum = ipv4::checksum(&ip.to_immutable());
    ip.set_checksum(checksum);

    let mut udp = MutableUdpPacket::new(udp_bytes).ok_or(truncated)?;
    udp.set_source(port);
    udp.set_destination(INA_UDP_PORT);
    udp.set_length(ip_len - IPV4_BYTES as u16);
    // Zero means "no checksum". There is none, because switches change the payload. The tag in the INA header protects
    // the sum.
    udp.set_checksum(0);
    message.emit(payload)?;
    Ok(len)
}

/// A received frame that carries an INA message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameView<'a> {
    header: FrameHeader,
    message: MessageView<'a>,
}

impl<'a> FrameView<'a> {
    /// Checks a frame from its Ethernet header to its last value.
    /// The headers must follow each other directly. An aggregating switch never passes on a gradient with a VLAN tag or
    /// IP options or in fragments, so such a gradient has bypassed admission.
    ///
    /// # Errors
    /// [`WireError::NotIna`] for a valid frame that does not carry an INA message; other [`WireError`]s for malformed
    /// frames.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, WireError> {
        let truncated = |part, needed, got| WireError::Truncated { part, needed, got };
        let (ethernet_bytes, rest) = bytes.split_at_checked(ETHERNET_BYTES).ok_or(truncated(
            "Ethernet header",
            ETHERNET_BYTES,
            bytes.len(),
        ))?;
        let ethernet = EthernetPacket::new(ethernet_bytes).ok_or(WireError::NotIna("no Ethernet header"))?;
        if ethernet.get_ethertype() != EtherTypes::Ipv4 {
            return Err(WireError::NotIna("not IPv4"));
        }
        let (ip_bytes, _) =
            rest.split_at_checked(IPV4_BYTES).ok_or(truncated("IPv4 header", IPV4_BYTES, rest.len()))?;
        let ip = Ipv4Packet::new(ip_bytes).ok_or(WireError::NotIna("no IPv4 header"))?;
        let datagram = udp_datagram(&ip, rest)?;
        let (udp_bytes, _) =
            datagram.split_at_checked(UDP_BYTES).ok_or(truncated("UDP header", UDP_BYTES, datagram.len()))?;
        let udp = UdpPacket::new(udp_bytes).ok_or(WireError::NotIna("no UDP header"))?;
        if udp.get_destination() != INA_UDP_PORT {
            return Err(WireError::NotIna("another UDP port"));
        }
        if ipv4::checksum(&ip) != ip.get_checksum() {
            return Err(WireError::Checksum);
        }
        let udp_len = usize::from(udp.get_length());
        let payload =
            datagram.get(UDP_BYTES..udp_len).ok_or(truncated("UDP datagram", udp_len, datagram.len()))?;
        let header = FrameHeader {
            source_mac: ethernet.get_source(),
            destination_mac: ethernet.get_destination(),
            source_ip: ip.get_source(),
            destination_ip: ip.get_destination(),
        };
        Ok(Self { header, message: MessageView::parse(payload)? })
    }

    /// Returns the addresses of the frame.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// Returns the message in the frame.
    pub fn message(&self) -> &MessageView<'a> {
        &self.message
    }
}

/// Returns the UDP datagram in an IPv4 packet.
/// The packet must have no options, and must not be a fragment.
fn udp_datagram<'a>(ip: &Ipv4Packet<'_>, packet: &'a [u8]) -> Result<&'a [u8], WireError> {
    const MORE_FRAGMENTS: u8 = ipv4::Ipv4Flags::MoreFragments;
    if ip.get_version() != 4 || ip.get_header_length() != IPV4_WORDS {
        return Err(WireError::NotIna("not a plain IPv4 header"));
    }
    if ip.get_next_level_protocol() != IpNextHeaderProtocols::Udp {
        return Err(WireError::NotIna("not UDP"));
    }
    if ip.get_fragment_offset() != 0 || ip.get_flags() & MORE_FRAGMENTS != 0 {
        return Err(WireError::NotIna("a fragment"));
    }
    let total = usize::from(ip.get_total_length());
    packet.get(IPV4_BYTES..total).ok_or(WireError::Truncated {
        part: "IPv4 packet",
        needed: total,
        got: packet.len(),
    })
}
