//! The IP and MAC addresses of hosts. The file gives some of them, and the others are derived.

use std::net::Ipv4Addr;

use tributary_wire::MacAddr;

use crate::assign::Unique;
use crate::error::{At, Problem};
use crate::file::HostEntry;

/// The number of host addresses in one /24, without the first and the last address.
const HOSTS_PER_24: u32 = 254;

pub(crate) struct Addresses {
    ips: Unique<Ipv4Addr>,
    macs: Unique<MacAddr>,
}

impl Addresses {
    /// Reserves the addresses that the file gives, so that no derived address equals one of them.
    pub(crate) fn given(hosts: &[HostEntry]) -> Result<Self, At> {
        let mut addresses = Self { ips: Unique::from(1), macs: Unique::from(0) };
        for host in hosts {
            let name = host.name.get_ref();
            if let Some((ip, span)) = given_ip(host)? {
                let taken = addresses.ips.take(ip, name);
                taken.map_err(|holder| (span, Problem::DuplicateIp { ip, holder }))?;
            }
            if let Some((mac, span)) = given_mac(host)? {
                let taken = addresses.macs.take(mac, name);
                let duplicate = |holder| Problem::DuplicateMac { mac: mac.to_string(), holder };
                taken.map_err(|holder| (span, duplicate(holder)))?;
            }
        }
        Ok(addresses)
    }

    /// Returns the addresses of one host, derived if the file does not give them.
    pub(crate) fn assign(&mut self, host: &HostEntry) -> Result<(MacAddr, Ipv4Addr), At> {
        let name = host.name.get_ref();
        let ip = match given_ip(host)? {
            Some((ip, _)) => ip,
            None => self
                .ips
                .next(name, nth_ip)
                .ok_or_else(|| (host.name.span(), Problem::TooManyNodes("IP address")))?,
        };
        let mac = match given_mac(host)? {
            Some((mac, _)) => mac,
            None => self.macs.take(mac_of(ip), name).map_err(|holder| {
                (host.name.span(), Problem::DuplicateMac { mac: mac_of(ip).to_string(), holder })
            })?,
        };
        Ok((mac, ip))
    }
}

/// Returns the n-th derived address. n starts at 1.
fn nth_ip(n: u32) -> Option<Ipv4Addr> {
    let n = n.checked_sub(1)?;
    let third = u8::try_from(n / HOSTS_PER_24).ok()?;
    let fourth = u8::try_from(n % HOSTS_PER_24 + 1).ok()?;
    Some(Ipv4Addr::new(10, 0, third, fourth))
}

/// Returns the locally administered MAC address that is derived from an IP address. It is unique for
/// each IP address.
fn mac_of(ip: Ipv4Addr) -> MacAddr {
    let [a, b, c, d] = ip.octets();
    MacAddr::new(0x02, 0, a, b, c, d)
}

fn given_ip(host: &HostEntry) -> Result<Option<(Ipv4Addr, std::ops::Range<usize>)>, At> {
    let Some(text) = &host.ip else { return Ok(None) };
    let usable = |ip: &Ipv4Addr| matches!(ip.octets(), [10, 0, third, fourth] if (third, fourth) != (0, 0) && (third, fourth) != (255, 255));
    let ip = text.get_ref().parse().ok().filter(usable);
    let ip = ip.ok_or_else(|| (text.span(), Problem::BadIp(text.get_ref().clone())))?;
    Ok(Some((ip, text.span())))
}

fn given_mac(host: &HostEntry) -> Result<Option<(MacAddr, std::ops::Range<usize>)>, At> {
    let Some(text) = &host.mac else { return Ok(None) };
    let unicast = |mac: &MacAddr| mac.0 & 1 == 0 && *mac != MacAddr::zero();
    let mac = text.get_ref().parse().ok().filter(unicast);
    let mac = mac.ok_or_else(|| (text.span(), Problem::BadMac(text.get_ref().clone())))?;
    Ok(Some((mac, text.span())))
}
