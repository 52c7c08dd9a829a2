//! The `AF_PACKET` socket of a port: opened with rustix, its options set with libc.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::LinkError;

/// The size of the send buffer: several windows of slices for dozens of children, in the kernel's own
/// counting, which takes about two bytes for each of ours.
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;
/// The size of the buffer for joined frames that come in and wait outside of the ring.
const RECEIVE_BUFFER_BYTES: libc::c_int = 8 << 20;

/// Opens a promiscuous socket on the interface `name` that receives nothing yet.
/// The socket may get every frame that passes the interface, except frames that leave by it. Returns it with the
/// interface's index and MTU in bytes.
///
/// # Errors
/// As [`InterfacePort::open`](super::InterfacePort::open).
pub(super) fn open_promiscuous(name: &str) -> Result<(OwnedFd, libc::c_int, usize), LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let (socket, index) = create(name)?;
    let mtu = mtu(&socket, name).map_err(fail("find the longest frame"))?;
    be_promiscuous(&socket, index).map_err(fail("enter promiscuous mode"))?;
    enlarge(&socket, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], RECEIVE_BUFFER_BYTES);
    Ok((socket, index, mtu))
}

/// Opens a socket that only sends, frames with offload information in front, by the interface `name`,
/// which has this index.
///
/// It is not the one that receives: a thread waits for that, and the kernel would look whether to wake it whenever a
/// frame has left and there is room for another.
///
/// # Errors
/// As [`InterfacePort::open`](super::InterfacePort::open).
pub(super) fn open_to_send(name: &str, index: libc::c_int) -> Result<OwnedFd, LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let socket = open_packet_socket(name)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).map_err(fail("use offloads"))?;
    // No protocol: nothing is received.
    bind(&socket, index, 0).map_err(fail("send frames"))?;
    enlarge(&socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SEND_BUFFER_BYTES);
    Ok(socket)
}

/// Opens a socket that receives the frames of one EtherType that come in at the interface `name`,
/// including those to the multicast address `group`. Returns it with the interface's own address.
///
/// # Errors
/// As [`EtherTypePort::open`](super::EtherTypePort::open).
pub(super) fn open_ether_type(
    name: &str,
    ether_type: u16,
    group: [u8; 6],
) -> Result<(OwnedFd, [u8; 6]), LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let (socket, index) = create(name)?;
    let address = hardware_address(&socket, name).map_err(fail("find the address"))?;
    join_group(&socket, index, group).map_err(fail("join a multicast group"))?;
    bind(&socket, index, ether_type).map_err(fail("receive frames"))?;
    Ok((socket, address))
}

/// Opens a socket that receives nothing yet; returns it with the interface's index.
fn create(name: &str) -> Result<(OwnedFd, libc::c_int), LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let socket = open_packet_socket(name)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name).map_err(fail("find the index"))?;
    let index = libc::c_int::try_from(index).map_err(|_| fail("find the index")(Errno::OVERFLOW))?;
    ignore_outgoing(&socket).map_err(fail("leave out outgoing frames"))?;
    Ok((socket, index))
}

/// Opens a socket of no interface, and of protocol 0: nothing is received from any
/// before `bind` names one.
fn open_packet_socket(name: &str) -> Result<OwnedFd, LinkError> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|errno| failed(name, "open a packet socket", errno))
}

pub(super) fn failed(name: &str, step: &'static str, errno: Errno) -> LinkError {
    match errno {
        Errno::PERM | Errno::ACCESS => LinkError::NotPermitted { name: name.into() },
        Errno::NODEV => LinkError::NoInterface { name: name.into() },
        _ => LinkError::Interface { name: name.into(), step, reason: errno.into() },
    }
}

/// Makes the kernel put received frames into a ring, to be mapped afterwards, with `headroom` free
/// bytes in front of each frame.
pub(super) fn fill_ring(socket: &OwnedFd, request: &libc::tpacket_req, headroom: usize) -> Result<(), Errno> {
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    let headroom = libc::c_uint::try_from(headroom).map_err(|_| Errno::INVAL)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RESERVE, &headroom)?;
    // This option can only be set before there is a ring.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    // A frame for which a slot has no room is received by a system call, as without a ring.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)
}

/// Makes a UDP socket take joined datagrams as one.
pub(super) fn take_datagrams_as_one(socket: &OwnedFd) -> Result<(), Errno> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &1)
}

/// The number of frames that the kernel has dropped since the last call, because the ring was full.
#[allow(unsafe_code)]
pub(super) fn overflowed(socket: &OwnedFd) -> Result<u64, Errno> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of_val(&stats) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `stats`, which has as many and is plain numbers.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut len,
        )
    };
    os_result(answer).map(|()| stats.tp_drops.into())
}

fn ignore_outgoing(socket: &OwnedFd) -> Result<(), Errno> {
    set_option(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)
}

/// Makes the interface promiscuous, by a membership, which the kernel ends with the socket, not
/// by the interface's flag.
fn be_promiscuous(socket: &OwnedFd, index: libc::c_int) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Enlarges a buffer as far as this process may: beyond the system's limit with `CAP_NET_ADMIN`, by the
/// first option, up to it without, by the second. A port with small buffers works, but loses more frames in a burst.
fn enlarge(socket: &OwnedFd, [forced, asked]: [libc::c_int; 2], bytes: libc::c_int) {
    if set_option(socket, libc::SOL_SOCKET, forced, &bytes).is_err() {
        let _ = set_option(socket, libc::SOL_SOCKET, asked, &bytes);
    }
}

/// Makes the interface accept frames to a multicast address, as long as the socket is open.
fn join_group(socket: &OwnedFd, index: libc::c_int, group: [u8; 6]) -> Result<(), Errno> {
    let mut address = [0; 8];
    address[..group.len()].copy_from_slice(&group);
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
        mr_alen: group.len() as libc::c_ushort,
        mr_address: address,
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// The most bytes behind an Ethernet header that the interface sends.
#[allow(unsafe_code)]
pub(super) fn mtu(socket: &OwnedFd, name: &str) -> Result<usize, Errno> {
    let answer = ask(socket, name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel answers this request in this field of the union.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| Errno::INVAL)
}

/// Returns true if the interface is up, and has a carrier.
#[allow(unsafe_code)]
pub(super) fn is_up(socket: &OwnedFd, name: &str) -> Result<bool, Errno> {
    let answer = ask(socket, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel answers this request in this field of the union.
    let flags = libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(flags & wanted == wanted)
}

/// Returns true if the interface has an IPv4 address.
pub(super) fn has_address(socket: &OwnedFd, name: &str) -> bool {
    ask(socket, name, libc::SIOCGIFADDR).is_ok()
}

/// The interface's Ethernet address.
#[allow(unsafe_code)]
fn hardware_address(socket: &OwnedFd, name: &str) -> Result<[u8; 6], Errno> {
    let answer = ask(socket, name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel answers this request in this field of the union.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    let bytes = address.sa_data.first_chunk::<6>().ok_or(Errno::INVAL)?;
    Ok(bytes.map(libc::c_char::cast_unsigned))
}

/// Makes a request to an interface's driver (`SIOCETHTOOL`): the first word is the request's number,
/// and the answer comes in the same words. There must be as many as the request's structure in `linux/ethtool.h` has.
#[allow(unsafe_code)]
pub(super) fn ask_driver<const WORDS: usize>(
    socket: &OwnedFd,
    name: &str,
    mut words: [u32; WORDS],
) -> Result<[u32; WORDS], Errno> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the call reads the name of `request`, and reads and writes the structure that it points to, which `words`
    // has room for and is plain numbers; it lives no longer than either.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    os_result(answer).map(|()| words)
}

/// A request about an interface.
#[allow(unsafe_code)]
fn request(name: &str) -> libc::ifreq {
    // SAFETY: the request is a name and numbers, for all of which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name was found, so it is short enough for a zero behind it.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// Makes a request to the kernel about an interface.
#[allow(unsafe_code)]
fn ask(socket: &OwnedFd, name: &str, what: libc::Ioctl) -> Result<libc::ifreq, Errno> {
    let mut request = request(name);
    // SAFETY: the call reads the name of `request` and writes its answer there, and lives no longer than it.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    os_result(answer)?;
    Ok(request)
}

/// Sets a socket option to a plain C value: neither libc nor rustix has a safe way for packet options.
#[allow(unsafe_code)]
pub(super) fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to `len` readable bytes that outlive the call, which only reads them; a value
    // that does not fit the option is refused by the kernel.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len) };
    os_result(answer)
}

/// Binds to the interface and starts to receive one protocol, or all: rustix has no
/// link-layer addresses.
#[allow(unsafe_code)]
pub(super) fn bind(socket: &OwnedFd, index: libc::c_int, protocol: u16) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to a whole `sockaddr_ll`, as its family says, and `len` is its size; the call
    // only reads it.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    os_result(answer)
}

/// The error in `errno` if a call has failed.
fn os_result(answer: libc::c_int) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
