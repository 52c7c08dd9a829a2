//! IPv4 and UDP frames, before and after a switch.

use std::net::Ipv4Addr;

use pnet_packet::ethernet::{EtherTypes, MutableEthernetPacket};
use pnet_packet::ip::IpNextHeaderProtocols;
use pnet_packet::ipv4::{MutableIpv4Packet, checksum};
use pnet_packet::udp::MutableUdpPacket;
use tributary_wire::MacAddr;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// The length of an IPv4 header in words of 32 bits.
const HEADER_WORDS: u8 = (IPV4_BYTES / 4) as u8;

/// The header fields of a frame. The payload is zero, and the UDP checksum is absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headers {
    pub(super) source_mac: MacAddr,
    pub(super) destination_mac: MacAddr,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) time_to_live: u8,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

impl Headers {
    /// Returns the frame, which is `bytes` long. If `bytes` is less than 42, its headers are incomplete.
    pub(super) fn frame(&self, bytes: usize) -> Vec<u8> {
        let mut frame = vec![0; bytes];
        self.write(&mut frame).unwrap_or_default();
        frame
    }

    fn write(&self, frame: &mut [u8]) -> Option<()> {
        let MacAddr(a, b, c, d, e, f) = self.destination_mac;
        let MacAddr(g, h, i, j, k, l) = self.source_mac;
        frame.get_mut(..12)?.copy_from_slice(&[a, b, c, d, e, f, g, h, i, j, k, l]);
        MutableEthernetPacket::new(frame)?.set_ethertype(EtherTypes::Ipv4);
        let packet = frame.get_mut(ETHERNET_BYTES..)?;
        let length = packet.len();
        let mut ipv4 = MutableIpv4Packet::new(packet)?;
        ipv4.set_version(4);
        ipv4.set_header_length(HEADER_WORDS);
        ipv4.set_total_length(length as u16);
        ipv4.set_ttl(self.time_to_live);
        ipv4.set_next_level_protocol(IpNextHeaderProtocols::Udp);
        ipv4.set_source(self.source);
        ipv4.set_destination(self.destination);
        let sum = checksum(&ipv4.to_immutable());
        ipv4.set_checksum(sum);
        let mut udp = MutableUdpPacket::new(packet.get_mut(IPV4_BYTES..)?)?;
        udp.set_source(self.source_port);
        udp.set_destination(self.destination_port);
        udp.set_length((length - IPV4_BYTES) as u16);
        debug_assert!(length >= IPV4_BYTES + UDP_BYTES);
        Some(())
    }
}

/// Returns a locally administered address for this kind and number.
pub(super) fn mac(kind: u8, number: u16) -> MacAddr {
    let [high, low] = number.to_be_bytes();
    MacAddr(2, kind, 0, 0, high, low)
}

/// Returns an address in the form that P4Runtime uses.
pub(super) fn value(MacAddr(a, b, c, d, e, f): MacAddr) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}
