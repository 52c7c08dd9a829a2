//! The system's settings of an interface that affect the fabric's frames, or other frames through it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::socket::{ask_driver, failed, has_address, is_up, mtu};
use crate::error::LinkError;

/// Numbers of requests to the driver, from `linux/ethtool.h`.
const DRIVER_INFO: u32 = 0x03;
const TX_CHECKSUM: u32 = 0x16;
const TCP_SEGMENTATION: u32 = 0x1e;
const SEGMENTATION: u32 = 0x23;
const RECEIVE: u32 = 0x2b;
const FLAGS: u32 = 0x25;
/// The flag of large receive offload.
const LARGE_RECEIVE: u32 = 1 << 15;

/// The driver of veth pairs, the virtual cables between network namespaces.
const VIRTUAL_CABLE: &str = "veth";

/// The size of `struct ethtool_drvinfo` in 32-bit words, and the words that hold the driver's name.
const DRIVER_INFO_WORDS: usize = 49;
const DRIVER_NAME: std::ops::Range<usize> = 1..9;

/// The system's settings of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceCondition {
    /// The longest packet that the interface carries, without the Ethernet header, in bytes.
    pub mtu: u32,
    /// The kernel's driver, such as "veth"; empty if the kernel does not report it.
    pub driver: String,
    /// True if the interface is up and its cable connects it to another interface that is up.
    pub is_up: bool,
    /// True if the interface has an IPv4 address. A switch's port must not have one.
    pub has_address: bool,
    /// The offloads that are on, from the list "tso", "gso", "gro", "tx", "lro" of ethtool's names.
    pub offloads: Vec<&'static str>,
}

impl InterfaceCondition {
    /// Returns the condition of the interface `name` in the calling thread's network namespace.
    /// Needs no privileges.
    ///
    /// # Errors
    /// [`LinkError::NoInterface`], or [`LinkError::Interface`] with the step that failed.
    pub fn of(name: &str) -> Result<Self, LinkError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)
            .map_err(|errno| failed(name, "open a socket", errno))?;
        // A name that is too long belongs to no interface, and would not fit into the request.
        rustix::net::netdevice::name_to_index(&socket, name)
            .map_err(|errno| failed(name, "find the index", errno))?;
        let mtu = mtu(&socket, name).map_err(|errno| failed(name, "find the longest frame", errno))?;
        let is_on = |question, mask| is_on(&socket, name, question, mask);
        let all = [
            ("tso", is_on(TCP_SEGMENTATION, 1)),
            ("gso", is_on(SEGMENTATION, 1)),
            ("gro", is_on(RECEIVE, 1)),
            ("tx", is_on(TX_CHECKSUM, 1)),
            ("lro", is_on(FLAGS, LARGE_RECEIVE)),
        ];
        Ok(Self {
            mtu: u32::try_from(mtu).unwrap_or(u32::MAX),
            is_up: is_up(&socket, name).map_err(|errno| failed(name, "find out whether it is up", errno))?,
            has_address: has_address(&socket, name),
            driver: driver(&socket, name).unwrap_or_default(),
            offloads: all.into_iter().filter_map(|(offload, on)| on.then_some(offload)).collect(),
        })
    }
}

/// Returns true if an interface is a virtual cable with segmentation offload and checksum offload.
pub(super) fn is_cable_with_offloads(socket: &OwnedFd, name: &str) -> bool {
    let is_on = |question| is_on(socket, name, question, 1);
    is_cable(socket, name) && is_on(SEGMENTATION) && is_on(TX_CHECKSUM)
}

/// Returns true if an interface is a virtual cable.
pub(super) fn is_cable(socket: &OwnedFd, name: &str) -> bool {
    driver(socket, name).is_ok_and(|driver| driver == VIRTUAL_CABLE)
}

/// Returns true if an offload is on. A driver that does not know the request does not have the
/// offload.
fn is_on(socket: &OwnedFd, name: &str, question: u32, mask: u32) -> bool {
    ask_driver(socket, name, [question, 0]).is_ok_and(|[_, answer]| answer & mask != 0)
}

fn driver(socket: &OwnedFd, name: &str) -> Result<String, Errno> {
    let mut question = [0; DRIVER_INFO_WORDS];
    question[0] = DRIVER_INFO;
    let answer = ask_driver(socket, name, question)?;
    let bytes = answer[DRIVER_NAME].iter().flat_map(|word| word.to_ne_bytes());
    let text: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    Ok(String::from_utf8_lossy(&text).into_owned())
}
