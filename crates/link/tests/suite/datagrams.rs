//! Datagrams of one stream cross a virtual cable as one frame, without an effect on senders and
//! receivers. The port splits the frames that hosts have joined.
//!
//! The tests need root and `ip` (iproute2). Without them, they print that and pass.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use mio::Events;
use pnet_packet::Packet;
use pnet_packet::ipv4::{self, Ipv4Packet, MutableIpv4Packet};
use pnet_packet::ipv6::Ipv6Packet;
use pnet_packet::tcp::{self, TcpPacket};
use pnet_packet::udp::{self, UdpPacket};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Socket, Type};
use tributary_link::{FramePort, InterfacePort, Mark, split_datagrams};
use tributary_testkit::netns;

use crate::cable;
use crate::cable::{ADDRESSES, Cable};

/// The number of bytes in front of the datagram's payload.
const HEADERS: usize = 42;

/// Returns a frame with a datagram of this payload, which has no UDP checksum and must not be
/// fragmented.
fn datagram(payload: &[u8]) -> Vec<u8> {
    datagram_with(&[], (0x4000, 0), payload)
}

/// Returns a frame with a datagram of this payload. Its IP header has these options, fragment flags
/// and identification.
fn datagram_with(options: &[u8], (flags, id): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let length = |headers: usize| ((headers + payload.len()) as u16).to_be_bytes();
    let begin = 0x45 + (options.len() / 4) as u8;
    let mut frame = [&ADDRESSES[..], &[0x08, 0x00, begin, 0], &length(28 + options.len())].concat();
    frame.extend([id.to_be_bytes(), flags.to_be_bytes(), [64, 17], [0, 0]].concat());
    frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([options, &[0x74, 0x72, 0x74, 0x72], &length(8), &[0, 0], payload].concat());
    set_ip_checksum(&mut frame);
    frame
}

fn set_ip_checksum(frame: &mut [u8]) {
    let mut ip = MutableIpv4Packet::new(&mut frame[14..]).unwrap();
    let checksum = ipv4::checksum(&ip.to_immutable());
    ip.set_checksum(checksum);
}

/// Returns a payload of one stream that contains a number.
fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0xa5; bytes];
    payload[4..8].copy_from_slice(&number.to_be_bytes());
    payload
}

/// Returns a cable with this MTU and two ports that join datagrams; `None` if no cable can be
/// created.
fn cable(mtu: u16) -> Option<Cable> {
    if !netns::enter_with_veth_pair("left", "right") {
        return None;
    }
    set_mtu(mtu);
    Some(open())
}

fn open() -> Cable {
    let Cable { left, right, poll } = Cable::open();
    let [left, right] = [left, right].map(|port| port.with_segmentation_offload(true));
    Cable { left, right, poll }
}

fn set_mtu(mtu: u16) {
    for end in ["left", "right"] {
        netns::ip(&format!("link set {end} mtu {mtu}"));
    }
}

/// Sends frames over the cable, and returns the frames that arrive.
fn cross(cable: &mut Cable, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let all: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    cable.left.send_all(&all).unwrap();
    frames.iter().map(|_| cable.receive()).collect()
}

/// Returns the number of frames that the kernel has received at the right interface.
fn taken_in() -> u64 {
    let interfaces = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let right = interfaces.lines().find_map(|line| line.trim().strip_prefix("right:")).unwrap();
    right.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A number larger than the number of frames that the kernel itself sends on a new interface.
const CHATTER: u64 = 40;

#[test]
fn neighbours_cross_as_one_frame_and_come_out_as_they_were() {
    let Some(mut cable) = cable(1_500) else { return };
    let before = taken_in();
    for round in 0..20 {
        let frames: Vec<_> = (0..100).map(|number| datagram(&payload(number, 600 + 40 * round))).collect();
        assert!(cross(&mut cable, &frames) == frames);
    }
    let taken_in = taken_in() - before;
    assert!(taken_in < 2_000 / 10 + CHATTER, "{taken_in} frames for 2,000 datagrams");
    let [sent, received] = [cable.left.meter().sent.read(), cable.right.meter().received.read()];
    let bytes: u64 = (0..20).map(|round| 100 * (HEADERS as u64 + 600 + 40 * round)).sum();
    assert_eq!((sent.frames, sent.bytes, sent.dropped), (2_000, bytes, 0));
    assert!(received.frames >= 2_000 && received.dropped == 0);
}

#[test]
fn as_many_are_joined_as_the_interface_takes() {
    // Five frames of 1,042 bytes have less than 6,250 bytes, and six do not. In the second case, three frames may be
    // joined.
    for (limit, at_once) in [("gso_max_size 6250", 5), ("gso_max_segs 3", 3), ("gso_max_segs 1", 1)] {
        let Some(mut cable) = cable(1_500) else { return };
        netns::ip(&format!("link set left {limit}"));
        cable.left = InterfacePort::open("left").unwrap().with_segmentation_offload(true);
        let frames: Vec<_> = (0..2_000).map(|number| datagram(&payload(number, 1_000))).collect();
        let before = taken_in();
        assert!(cross(&mut cable, &frames) == frames);
        let taken_in = taken_in() - before;
        // Each batch may end with a shorter group.
        let least = 2_000 / at_once;
        assert!((least..least * 9 / 8 + CHATTER).contains(&taken_in), "{limit}: {taken_in}");
    }
}

#[test]
fn long_frames_fill_what_one_packet_holds() {
    let Some(mut cable) = cable(9_000) else { return };
    let frames: Vec<_> = (0..64).map(|number| datagram(&payload(number, 8_972))).collect();
    assert!(cross(&mut cable, &frames) == frames);
}

/// Returns a frame that may stand between frames of one stream, and may be hard to distinguish from
/// them.
fn neighbour(rng: &mut ChaCha8Rng) -> Vec<u8> {
    let bytes = *[8, 9, 100, 100, 100, 101, 1_000, 1_466].choose(rng).unwrap();
    let mut frame = datagram(&payload(rng.random(), bytes));
    match rng.random_range(0..40) {
        // The frame belongs to another stream: it has another address, port, or beginning of the payload.
        0 => frame[33] = 9,
        1 => frame[35] = 1,
        2 => frame[HEADERS + 2] = 7,
        // The frame has another type of service, time to live, or id.
        3 => frame[15] = 1,
        4 => frame[22] = 9,
        5 => frame[19] = 3,
        // The frame may be fragmented on its way, or is a fragment.
        6 => frame[20] = 0,
        7 => frame[20] = 0x20,
        8 => frame[21] = 1,
        // The frame has another protocol or EtherType.
        9 => frame[23] = 132,
        10 => frame[12] = 0x86,
        // The frame has a UDP checksum, a wrong IP or UDP length, or bytes behind the datagram.
        11 => frame[40] = 0x12,
        12 => frame[39] ^= 1,
        13 => frame[17] ^= 4,
        14 => frame.extend([0; 6]),
        15 => {
            frame[24] ^= 0x10;
            return frame;
        }
        _ => return frame,
    }
    set_ip_checksum(&mut frame);
    frame
}

#[test]
fn whatever_stands_beside_datagrams_comes_out_as_it_was() {
    let Some(mut cable) = cable(1_500) else { return };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for round in 0..300 {
        let frames: Vec<_> = (0..rng.random_range(1..80)).map(|_| neighbour(&mut rng)).collect();
        let same = |(arrived, sent): (Vec<u8>, &Vec<u8>)| arrived == *sent;
        assert!(cross(&mut cable, &frames).into_iter().zip(&frames).all(same), "round {round}");
    }
    assert_eq!(cable.right.meter().received.read().dropped, 0);
}

/// Sets offloads of an interface; returns false if ethtool is not installed.
fn ethtool(interface: &str, offloads: &[&str]) -> bool {
    match Command::new("ethtool").args(["-K", interface]).args(offloads).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("skipped: there is no ethtool ({error})");
            return false;
        }
    }
    true
}

#[test]
fn an_interface_without_offloads_has_every_frame_by_itself() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    if !ethtool("left", &["tx", "off"]) {
        return;
    }
    let mut cable = open();
    let before = taken_in();
    let frames: Vec<_> = (0..500).map(|number| datagram(&payload(number, 600))).collect();
    assert!(cross(&mut cable, &frames) == frames);
    assert!(taken_in() - before >= 500);
}

#[test]
fn the_longest_that_wait_are_lost_in_order_and_counted() {
    const SENT: u32 = 40_000;
    let Some(mut cable) = cable(1_500) else { return };
    for number in 0..SENT {
        cable.left.send(&datagram(&payload(number, 1_000))).unwrap();
    }
    cable.left.flush().unwrap();
    let mut kept = 0;
    while let Some(frame) = cable.right.receive().unwrap() {
        if cable::is_ours(frame) {
            let number = u32::from_be_bytes(frame[HEADERS + 4..HEADERS + 8].try_into().unwrap());
            assert!(number >= kept, "{number} behind {kept}");
            kept += 1;
        }
    }
    assert!((1_000..SENT).contains(&kept), "{kept}");
    let dropped = cable.right.meter().received.read().dropped;
    assert!(
        (u64::from(SENT - kept)..u64::from(SENT - kept) + CHATTER).contains(&dropped),
        "{kept} and {dropped}"
    );
    let frames = [datagram(&payload(7, 900)), datagram(&payload(8, 900))];
    assert!(cross(&mut cable, &frames) == frames);
}

#[test]
fn a_frame_that_has_become_too_long_is_dropped_and_no_other_takes_its_place() {
    let Some(mut cable) = cable(1_500) else { return };
    set_mtu(3_000);
    // The left port is opened with this MTU and may send the frame, which the right port cannot receive.
    cable.left = InterfacePort::open("left").unwrap().with_segmentation_offload(true);
    for round in 0..100 {
        for _ in 0..2 {
            cable.left.send(&datagram(&[7; 2_900])).unwrap();
        }
        let frames: Vec<_> = (0..20).map(|number| datagram(&payload(number, 1_000 + round))).collect();
        assert!(cross(&mut cable, &frames) == frames);
    }
    let dropped = cable.right.meter().received.read().dropped;
    assert!((200..200 + CHATTER).contains(&dropped), "{dropped}");
}

#[test]
fn those_with_all_marks_pass_though_they_are_many_in_one() {
    let Some(mut cable) = cable(1_500) else { return };
    let stream = |stream: u8, number| {
        let mut payload = payload(number, 500);
        payload[3] = stream;
        datagram(&payload)
    };
    cable
        .right
        .pass_only(&[Mark { at: 12, value: 0x0800 }, Mark { at: HEADERS + 2, value: 0xa507 }])
        .unwrap();
    let mixed: Vec<_> = (0..1_000).map(|number| stream(7 + u8::from(number % 5 > 2), number)).collect();
    mixed.iter().for_each(|frame| cable.left.send(frame).unwrap());
    cable.left.flush().unwrap();
    for expected in mixed.iter().filter(|frame| frame[HEADERS + 3] == 7) {
        assert_eq!(cable.receive(), *expected);
    }
}

#[test]
fn a_hosts_own_packets_come_with_a_checksum_or_without_one() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("addr add 192.0.2.1/24 dev left");
    netns::ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:02 dev left nud permanent");
    let mut cable = open();
    let is = |frame: &[u8], protocol| frame[12..14] == [8, 0] && frame[23] == protocol;

    let socket = UdpSocket::bind("192.0.2.1:0").unwrap();
    socket.send_to(&[7; 333], "192.0.2.2:9").unwrap();
    let frame = cable.receive_one(|frame| is(frame, 17));
    let udp = UdpPacket::new(&frame[34..]).unwrap();
    assert_eq!((udp.get_checksum(), udp.payload()), (0, &[7; 333][..]));

    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_nonblocking(true).unwrap();
    let to: SocketAddr = "192.0.2.2:9".parse().unwrap();
    let begun = socket.connect(&to.into()).unwrap_err();
    assert!(
        begun.kind() == ErrorKind::WouldBlock || begun.raw_os_error() == Some(libc::EINPROGRESS),
        "{begun}"
    );
    let frame = cable.receive_one(|frame| is(frame, 6));
    let ip = Ipv4Packet::new(&frame[14..]).unwrap();
    let packet = TcpPacket::new(ip.payload()).unwrap();
    assert_eq!(packet.get_checksum(), tcp::ipv4_checksum(&packet, &ip.get_source(), &ip.get_destination()));
}

/// Sets an option of a socket to a plain C value.
#[allow(unsafe_code)]
fn set_option(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer refers to `len` readable bytes, which the call only reads.
    let answer =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}

/// Returns the payload of the UDP datagram in a frame without a tag, its checksum, and the correct
/// checksum.
fn datagram_in(frame: &[u8]) -> Option<(Vec<u8>, u16, u16)> {
    match frame.get(12..14)? {
        [0x08, 0x00] => {
            let ip = Ipv4Packet::new(&frame[14..])?;
            assert_eq!(ipv4::checksum(&ip), ip.get_checksum());
            assert_eq!(usize::from(ip.get_total_length()), frame.len() - 14);
            let datagram = UdpPacket::new(&frame[34..])?;
            (frame[23] == 17).then(|| (datagram.payload().to_vec(), datagram.get_checksum(), 0))
        }
        [0x86, 0xdd] => {
            let ip = Ipv6Packet::new(&frame[14..])?;
            assert_eq!(usize::from(ip.get_payload_length()), frame.len() - 54);
            let datagram = UdpPacket::new(&frame[54..])?;
            let checksum = udp::ipv6_checksum(&datagram, &ip.get_source(), &ip.get_destination());
            (frame[20] == 17).then(|| (datagram.payload().to_vec(), datagram.get_checksum(), checksum))
        }
        _ => None,
    }
}

/// Returns the correct UDP checksum of a frame without a tag, over IPv4 without options or over IPv6.
fn full_checksum(frame: &[u8]) -> u16 {
    if frame[14] >> 4 == 6 {
        return datagram_in(frame).unwrap().2;
    }
    let ip = Ipv4Packet::new(&frame[14..]).unwrap();
    udp::ipv4_checksum(&UdpPacket::new(ip.payload()).unwrap(), &ip.get_source(), &ip.get_destination())
}

/// Returns datagrams as hosts send them in one call: `count` datagrams of `bytes` bytes, and a
/// shorter one.
fn many(count: u8, bytes: usize, rest: usize) -> Vec<Vec<u8>> {
    let mut many: Vec<_> = (0..count).map(|number| vec![number; bytes]).collect();
    many.extend((rest > 0).then(|| vec![0xee; rest]));
    many
}

#[test]
fn what_a_host_has_joined_comes_out_as_if_it_had_not() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    for (host, neighbour, how) in
        [("192.0.2.1", "192.0.2.2", "/24 dev left"), ("2001:db8::1", "2001:db8::2", "/64 dev left nodad")]
    {
        netns::ip(&format!("addr add {host}{how}"));
        netns::ip(&format!("neigh add {neighbour} lladdr 02:00:00:00:00:02 dev left nud permanent"));
        let mut cable = Cable::open();
        let socket = UdpSocket::bind((host, 0)).unwrap();
        socket.connect((neighbour, 9)).unwrap();
        // The first frame fits into a slot of the ring, and the others do not.
        for (count, bytes, rest) in [(9, 100, 33), (50, 1_000, 1), (40, 1_400, 0)] {
            // Libraries for QUIC send datagrams in this way.
            split_datagrams(&socket, bytes as u16).unwrap();
            let (sent, before) = (many(count, bytes, rest), taken_in());
            socket.send(&sent.concat()).unwrap();
            for payload in sent {
                let frame = cable.receive_one(|frame| frame[..6] == ADDRESSES[..6]);
                let (arrived, checksum, expected) = datagram_in(&frame).unwrap();
                assert!(arrived == payload, "{host}, {bytes}: {arrived:?}");
                assert_eq!(checksum, expected, "{host}, {bytes}");
            }
            assert!(taken_in() - before < 9, "the system has joined nothing");
        }
        assert_eq!(cable.right.meter().received.read().dropped, 0);
    }
}

/// Sends a frame of datagrams with `segment` bytes of payload each from the left interface, as the
/// system's own hosts send them.
#[allow(unsafe_code)]
fn send_joined(frame: &[u8], headers: usize, segment: usize) {
    let socket = Socket::new(Domain::PACKET, Type::RAW, None).unwrap();
    set_option(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1);
    let index = name_to_index(&socket, "left").unwrap();
    // SAFETY: an address consists of plain numbers, and zero is a valid value for all of them.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    (address.sll_family, address.sll_ifindex) = (libc::AF_PACKET as libc::c_ushort, index as libc::c_int);
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer refers to a whole address of `len` bytes, which the call only reads.
    let answer = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    assert_eq!(answer, 0);
    // The fields of `struct virtio_net_hdr`: a checksum is left to do; the frame has UDP datagrams; the lengths of the
    // headers and of the payloads; the offset at which the checksum's range begins; the offset of the checksum in that
    // range.
    let number = |number: usize| (number as u16).to_ne_bytes();
    let offload =
        [&[1, 5], &number(headers)[..], &number(segment), &number(headers - 8), &number(6)].concat();
    assert_eq!(socket.send(&[&offload, frame].concat()).unwrap(), offload.len() + frame.len());
}

#[test]
fn each_of_those_that_a_host_has_joined_has_its_tags_options_and_identification() {
    const TAGS: [u8; 8] = [0x88, 0xa8, 0, 7, 0x81, 0, 0, 9];
    let Some(mut cable) = Cable::new() else { return };
    let headers = [0, 4, 8].into_iter().flat_map(|tags| [0, 8, 40].map(|options| (tags, options)));
    for ((tags, options), flags) in headers.flat_map(|headers| [(headers, 0x4000), (headers, 0)]) {
        let (tags, options) = (&TAGS[TAGS.len() - tags..], vec![1; options]);
        let tagged = |frame: Vec<u8>| [&frame[..12], tags, &frame[12..]].concat();
        // The first frame fits into a slot of the ring, and the second does not.
        for (count, bytes, rest) in [(9, 100, 33), (40, 1_400, 0)] {
            let (sent, before) = (many(count, bytes, rest), taken_in());
            let joined = tagged(datagram_with(&options, (flags, u16::MAX), &sent.concat()));
            send_joined(&joined, HEADERS + tags.len() + options.len(), bytes);
            for (payload, number) in sent.iter().zip(0..) {
                // The id changes only if the datagram may be fragmented, because otherwise it has no meaning.
                let id = if flags == 0 { u16::MAX.wrapping_add(number) } else { u16::MAX };
                let expected = tagged(datagram_with(&options, (flags, id), payload));
                assert!(cable.receive() == expected, "{tags:?}, {options:?}, {flags}, {bytes}: {number}");
            }
            assert!(taken_in() - before < 9, "the system has split it");
        }
    }
    assert_eq!(cable.right.meter().received.read().dropped, 0);
}

/// Sets an interface down and up again, and waits until frames cross the cable.
fn flap(cable: &mut Cable, end: &str) {
    netns::ip(&format!("link set {end} down"));
    netns::ip(&format!("link set {end} up"));
    // Frames are lost until the kernel has brought the link up.
    let deadline = Instant::now() + cable::PATIENCE;
    let mut events = Events::with_capacity(8);
    while cable::next(&mut cable.right, cable::is_ours).is_none() {
        assert!(Instant::now() < deadline, "no frame within {:?}", cable::PATIENCE);
        cable.left.send_all(&[&datagram(&[1; 50])]).unwrap();
        cable.poll.poll(&mut events, Some(Duration::from_millis(1))).unwrap();
    }
    while cable::next(&mut cable.right, cable::is_ours).is_some() {}
}

#[test]
fn an_interface_that_was_down_leaves_each_joined_frame_its_own_lengths() {
    let Some(mut cable) = cable(1_500) else { return };
    for end in ["right", "left", "right"] {
        flap(&mut cable, end);
        for round in 0..10 {
            // The groups have different lengths, and each is too long for a slot.
            let lengths = [1_000, 600, 800, 450].map(|bytes| bytes + round);
            let frames: Vec<_> = lengths
                .into_iter()
                .flat_map(|bytes| (0..5).map(move |n| datagram(&payload(n, bytes))))
                .collect();
            assert!(cross(&mut cable, &frames) == frames, "after {end} was down, round {round}");
        }
    }
    let meter = cable.right.meter();
    assert_eq!((meter.received.read().dropped, meter.repairs.read()), (0, 0));
}

/// Returns the value of a numeric socket option; `None` if the descriptor is not a socket.
#[allow(unsafe_code)]
fn option(fd: i32, level: libc::c_int, option: libc::c_int) -> Option<u64> {
    let mut value = 0_u64;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `value`, which has that size.
    let answer = unsafe { libc::getsockopt(fd, level, option, (&raw mut value).cast(), &raw mut len) };
    (answer == 0).then_some(value)
}

/// Returns the descriptor of the port that was opened last in the calling thread's namespace. Each
/// end of the cable has one socket with a ring.
#[allow(unsafe_code)]
fn last_ring() -> BorrowedFd<'static> {
    let namespace = |fd| option(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE);
    let here = namespace(Socket::new(Domain::PACKET, Type::RAW, None).unwrap().as_raw_fd());
    let fds = fs::read_dir("/proc/self/fd").unwrap();
    let fds = fds.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap());
    let has_ring = |fd| option(fd, libc::SOL_PACKET, libc::PACKET_RESERVE).is_some_and(|bytes| bytes > 0);
    let last = fds.filter(|fd| namespace(*fd) == here && has_ring(*fd)).max().unwrap();
    // SAFETY: the port keeps the descriptor open as long as the test uses it.
    unsafe { BorrowedFd::borrow_raw(last) }
}

#[test]
fn queues_that_are_out_of_step_are_repaired_and_no_frame_is_mixed_up() {
    let Some(mut cable) = cable(1_500) else { return };
    let group = |bytes: usize| -> Vec<_> { (0..5).map(|n| datagram(&payload(n, bytes))).collect() };
    for (stolen, repairs) in [(0, 3), (1, 5), (2, 6)] {
        for bytes in [1_000, 600, 800] {
            let frames = group(bytes);
            let all: Vec<_> = frames.iter().map(Vec::as_slice).collect();
            cable.left.send_all(&all).unwrap();
        }
        // The frame of one of the three slots is missing. The frames before it are read first.
        for frame in [1_000, 600].map(group).iter().take(stolen).flatten() {
            assert!(cable.receive() == *frame);
        }
        let mut frame = [0; 9_000];
        rustix::net::recv(last_ring(), &mut frame, rustix::net::RecvFlags::DONTWAIT).unwrap();
        assert_eq!(cable::next(&mut cable.right, cable::is_ours), None);
        assert_eq!(cable.right.meter().repairs.read(), repairs);
        let frames = group(700);
        assert!(cross(&mut cable, &frames) == frames);
    }
    let dropped = cable.right.meter().received.read().dropped;
    assert_eq!(dropped, 5 * 6, "the frames behind the stolen one, too");
}

#[test]
fn what_the_receiving_interface_has_joined_comes_out_as_if_it_had_not() {
    for (host, neighbour, how) in
        [("192.0.2.1", "192.0.2.2", "/24 dev left"), ("2001:db8::1", "2001:db8::2", "/64 dev left nodad")]
    {
        for offload in ["rx-gro-list", "rx-udp-gro-forwarding"] {
            if !netns::enter_with_veth_pair("left", "right") {
                return;
            }
            netns::ip(&format!("addr add {host}{how}"));
            netns::ip(&format!("neigh add {neighbour} lladdr 02:00:00:00:00:02 dev left nud permanent"));
            // The sender's system calculates all checksums, so that the receiver's system may join datagrams.
            if !ethtool("left", &["tx", "off"]) || !ethtool("right", &["gro", "on", offload, "on"]) {
                return;
            }
            let mut cable = Cable::open();
            let socket = UdpSocket::bind((host, 0)).unwrap();
            socket.connect((neighbour, 9)).unwrap();
            for (count, bytes, rest) in [(9, 100, 33), (50, 1_000, 1), (40, 1_400, 0)] {
                split_datagrams(&socket, bytes as u16).unwrap();
                let sent = many(count, bytes, rest);
                socket.send(&sent.concat()).unwrap();
                for payload in sent {
                    let frame = cable.receive_one(|frame| frame[..6] == ADDRESSES[..6]);
                    let (arrived, checksum, expected) = datagram_in(&frame).unwrap();
                    assert!(arrived == payload, "{host}, {offload}, {bytes}: {arrived:?}");
                    // Over IPv4, a datagram has no checksum if the system has left it to do, as after some offloads.
                    let right = [expected, if offload == "rx-gro-list" { full_checksum(&frame) } else { 0 }];
                    assert!(right.contains(&checksum), "{host}, {offload}, {bytes}: {checksum:#x}");
                }
            }
            assert_eq!(cable.right.meter().received.read().dropped, 0);
        }
    }
}
