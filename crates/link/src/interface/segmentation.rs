//! The limits of the frames that an interface takes: segmentation offload, as the system has set it up.

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

/// Limits of the frames that an interface takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmentation {
    /// The bytes of all frames that are joined have to be less than this.
    pub(super) bytes: usize,
    /// The most frames that are joined.
    pub(super) frames: usize,
}

impl Segmentation {
    /// Returns the limits of the interface `name` with this index; `None` if it takes only single frames.
    ///
    /// Only virtual cables take more: a real interface would put a checksum into each datagram, and switches that
    /// change the datagram do not update that.
    pub(super) fn of(socket: &OwnedFd, name: &str, index: libc::c_int) -> Option<Self> {
        if !is_cable_with_offloads(socket, name) || !system_takes_many() {
            return None;
        }
        // Without an answer: as by default. What is too long is then split in front of the interface's queue.
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

/// Makes the kernel take each message that is sent by a UDP socket as many datagrams of this many bytes
/// of payload; the last one may have fewer (UDP segmentation offload).
///
/// # Errors
/// The kernel's: before Linux 4.18.
pub fn split_datagrams(socket: &impl AsRawFd, payload: u16) -> io::Result<()> {
    let payload = libc::c_int::from(payload);
    Ok(set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, &payload)?)
}

/// Returns true if packet sockets may send joined datagrams: since Linux 6.2.
fn system_takes_many() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(2))
}

/// Requests an interface's limits (`ip link set … gso_max_size … gso_max_segs …`).
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
