//! The limits of segmentation offload at an interface, as the system has set them.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::condition::is_cable_with_offloads;
use super::socket::set_option;
use crate::MAX_FRAME_BYTES;

/// Limits of the joined frames that an interface accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmentation {
    /// Joined frames must have fewer bytes than this in total.
    pub(super) bytes: usize,
    /// The most frames that may be joined.
    pub(super) frames: usize,
}

impl Segmentation {
    /// Returns the limits of the interface `name` with this index; `None` if it accepts only single
    /// frames.
    ///
    /// Only virtual cables accept joined frames. A real interface would put a checksum into each datagram, and switches
    /// that change the datagram do not update the checksum.
    pub(super) fn of(socket: &OwnedFd, name: &str, index: libc::c_int) -> Option<Self> {
        if !is_cable_with_offloads(socket, name) || !system_takes_many() {
            return None;
        }
        // If the kernel does not answer, the system's defaults apply. The kernel then splits frames that are too long
        // in front of the interface's queue.
        let limits = ask(index).unwrap_or(Self { bytes: MAX_FRAME_BYTES, frames: usize::MAX });
        (limits.frames > 1).then_some(limits)
    }

    fn parse(attributes: &[LinkAttribute]) -> Self {
        let mut limits = Self { bytes: MAX_FRAME_BYTES, frames: usize::MAX };
        for attribute in attributes {
            match attribute {
                LinkAttribute::GsoMaxSize(bytes) | LinkAttribute::GsoIpv4MaxSize(bytes) => {
                    limits.bytes = limits.bytes.min(*bytes as usize);
                }
                LinkAttribute::GsoMaxSegs(frames) => limits.frames = *frames as usize,
                _ => {}
            }
        }
        limits
    }
}

/// Makes the kernel split each message of a UDP socket into datagrams of `payload` bytes; the last
/// datagram may be shorter (UDP segmentation offload).
///
/// # Errors
/// The kernel's error, for example before Linux 4.18.
pub fn split_datagrams(socket: &impl AsRawFd, payload: u16) -> io::Result<()> {
    let payload = libc::c_int::from(payload);
    Ok(set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &payload)?)
}

/// Returns true if packet sockets may send joined datagrams, which they may since Linux 6.2.
fn system_takes_many() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(2))
}

/// Requests an interface's limits from the kernel (`ip link set … gso_max_size … gso_max_segs …`).
fn ask(index: libc::c_int) -> io::Result<Segmentation> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut link = LinkMessage::default();
    link.header.index = u32::try_from(index).map_err(|_| ErrorKind::InvalidInput)?;
    let mut question = NetlinkMessage::from(RouteNetlinkMessage::GetLink(link));
    question.header.flags = NLM_F_REQUEST;
    question.finalize();
    let mut bytes = vec![0; question.buffer_len()];
    question.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::deserialize(&answer).map_err(io::Error::other)?;
    match answer.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
            Ok(Segmentation::parse(&link.attributes))
        }
        NetlinkPayload::Error(error) => Err(error.to_io()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}
