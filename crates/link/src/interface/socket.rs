//! The `AF_PACKET` socket of a port. rustix opens it, and libc sets its options.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::LinkError;

/// The size of the send buffer in the kernel's counting, which takes about two bytes for each byte of
/// a frame. The buffer holds several windows of slices for dozens of children.
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;
/// The size of the buffer for received joined frames that wait outside of the ring.
const RECEIVE_BUFFER_BYTES: libc::c_int = 8 << 20;

/// Opens a promiscuous socket on the interface `name`. It receives nothing before it is bound. Then
/// it may receive every frame that arrives at the interface, but not frames that leave. Returns the socket with the
/// interface's index and MTU in bytes.
///
/// # Errors
/// The errors of [`InterfacePort::open`](super::InterfacePort::open).
pub(super) fn open_promiscuous(name: &str) -> Result<(OwnedFd, libc::c_int, usize), LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let (socket, index) = create(name)?;
    let mtu = mtu(&socket, name).map_err(fail("find the longest frame"))?;
    be_promiscuous(&socket, index).map_err(fail("enter promiscuous mode"))?;
    enlarge(&socket, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], RECEIVE_BUFFER_BYTES);
    Ok((socket, index, mtu))
}

/// Opens a socket that sends frames by the interface `name` with this index, and receives nothing.
/// Offload information precedes each frame.
///
/// It must not be the socket that receives. A thread waits for the receiving socket, and the kernel would check whether
/// to wake the thread whenever a frame has left and the buffer has room again.
///
/// # Errors
/// The errors of [`InterfacePort::open`](super::InterfacePort::open).
pub(super) fn open_to_send(name: &str, index: libc::c_int) -> Result<OwnedFd, LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let socket = open_packet_socket(name)?;
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1).map_err(fail("use offloads"))?;
    // The protocol is 0, so the socket receives nothing.
    bind(&socket, index, 0).map_err(fail("send frames"))?;
    enlarge(&socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SEND_BUFFER_BYTES);
    Ok(socket)
}

/// Opens a socket that receives the frames of one EtherType at the interface `name`, including frames
/// to the multicast address `group`. Returns it with the interface's own address.
///
/// # Errors
/// The errors of [`EtherTypePort::open`](super::EtherTypePort::open).
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

/// Opens a socket that receives nothing before it is bound. Returns it with the interface's index.
fn create(name: &str) -> Result<(OwnedFd, libc::c_int), LinkError> {
    let fail = |step| move |errno| failed(name, step, errno);
    let socket = open_packet_socket(name)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name).map_err(fail("find the index"))?;
    let index = libc::c_int::try_from(index).map_err(|_| fail("find the index")(Errno::OVERFLOW))?;
    ignore_outgoing(&socket).map_err(fail("leave out outgoing frames"))?;
    Ok((socket, index))
}

/// Opens a socket without an interface and with protocol 0, so it receives nothing before `bind` sets
/// both.
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

/// Makes the kernel put received frames into a ring, with `headroom` free bytes in front of each
/// frame. The caller maps the ring afterwards.
pub(super) fn fill_ring(socket: &OwnedFd, request: &libc::tpacket_req, headroom: usize) -> Result<(), Errno> {
    let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
    let headroom = libc::c_uint::try_from(headroom).map_err(|_| Errno::INVAL)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RESERVE, &headroom)?;
    // This option can only be set before the ring exists.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
    // A frame that does not fit into a slot is also put into the socket's queue, where a system call can receive it.
    set_option(socket, libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1)?;
    set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)
}

/// Makes a UDP socket receive joined datagrams as one message.
pub(super) fn take_datagrams_as_one(socket: &OwnedFd) -> Result<(), Errno> {
    set_option(socket, libc::SOL_UDP, libc::UDP_GRO, &1)
}

/// Returns the number of frames that the kernel has dropped since the last call because the ring was
/// full.
#[allow(unsafe_code)]
pub(super) fn overflowed(socket: &OwnedFd) -> Result<u64, Errno> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of_val(&stats) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `stats`, which has that size and consists of plain numbers.
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

/// Makes the interface promiscuous by a membership of the socket, not by the interface's flag. The
/// kernel ends the membership with the socket.
fn be_promiscuous(socket: &OwnedFd, index: libc::c_int) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

/// Enlarges a buffer as far as this process may. With `CAP_NET_ADMIN`, the first option exceeds the
/// system's limit. Otherwise the second option enlarges the buffer up to the limit. A port with small buffers works,
/// but loses more frames in a burst.
fn enlarge(socket: &OwnedFd, [forced, asked]: [libc::c_int; 2], bytes: libc::c_int) {
    if set_option(socket, libc::SOL_SOCKET, forced, &bytes).is_err() {
        let _ = set_option(socket, libc::SOL_SOCKET, asked, &bytes);
    }
}

/// Makes the interface accept frames to a multicast address as long as the socket is open.
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

/// Returns the most bytes behind an Ethernet header that the interface sends.
#[allow(unsafe_code)]
pub(super) fn mtu(socket: &OwnedFd, name: &str) -> Result<usize, Errno> {
    let answer = ask(socket, name, libc::SIOCGIFMTU)?;
    // SAFETY: the kernel stores the answer to this request in this field of the union.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(|_| Errno::INVAL)
}

/// Returns true if the interface is up and has a carrier.
#[allow(unsafe_code)]
pub(super) fn is_up(socket: &OwnedFd, name: &str) -> Result<bool, Errno> {
    let answer = ask(socket, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: the kernel stores the answer to this request in this field of the union.
    let flags = libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags });
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    Ok(flags & wanted == wanted)
}

/// Returns true if the interface has an IPv4 address.
pub(super) fn has_address(socket: &OwnedFd, name: &str) -> bool {
    ask(socket, name, libc::SIOCGIFADDR).is_ok()
}

/// Returns the interface's Ethernet address.
#[allow(unsafe_code)]
fn hardware_address(socket: &OwnedFd, name: &str) -> Result<[u8; 6], Errno> {
    let answer = ask(socket, name, libc::SIOCGIFHWADDR)?;
    // SAFETY: the kernel stores the answer to this request in this field of the union.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    let bytes = address.sa_data.first_chunk::<6>().ok_or(Errno::INVAL)?;
    Ok(bytes.map(libc::c_char::cast_unsigned))
}

/// Makes a request to an interface's driver (`SIOCETHTOOL`). The first word is the request's number.
/// The driver writes its answer to the same words. `words` must be as long as the request's structure in
/// `linux/ethtool.h`.
#[allow(unsafe_code)]
pub(super) fn ask_driver<const WORDS: usize>(
    socket: &OwnedFd,
    name: &str,
    mut words: [u32; WORDS],
) -> Result<[u32; WORDS], Errno> {
    let mut request = request(name);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the call reads the name in `request`, and reads and writes the structure to which `request` points.
    // `words` has room for the structure, which consists of plain numbers. The call ends before both values do.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    os_result(answer).map(|()| words)
}

/// Creates a request about an interface.
#[allow(unsafe_code)]
fn request(name: &str) -> libc::ifreq {
    // SAFETY: the request consists of a name and numbers, and zero is a valid value for all of them.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The kernel has found the name, so it is short enough to be followed by a zero.
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// Makes a request to the kernel about an interface.
#[allow(unsafe_code)]
fn ask(socket: &OwnedFd, name: &str, what: libc::Ioctl) -> Result<libc::ifreq, Errno> {
    let mut request = request(name);
    // SAFETY: the call reads the name in `request` and writes its answer to `request`, and ends before `request` does.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    os_result(answer)?;
    Ok(request)
}

/// Sets a socket option to a plain C value. Neither libc nor rustix has a safe function for packet
/// options.
#[allow(unsafe_code)]
pub(super) fn set_option<T: Copy>(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer refers to `len` readable bytes that outlive the call, and the call only reads them. The
    // kernel refuses a value that does not fit the option.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const *value).cast(), len) };
    os_result(answer)
}

/// Binds the socket to the interface, so that it receives one protocol or all protocols. The function
/// uses libc because rustix has no link-layer addresses.
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
    // SAFETY: the pointer refers to a whole `sockaddr_ll`, as its family states, and `len` is its size. The call only
    // reads it.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    os_result(answer)
}

/// Returns the error in `errno` if a call has failed.
fn os_result(answer: libc::c_int) -> Result<(), Errno> {
    if answer >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
