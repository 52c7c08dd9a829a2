//! Ports on a pair of virtual Ethernet interfaces, in the test's own network namespace.
//!
//! The tests need root and `ip` (iproute2). Without them, they print that and pass.

use std::time::{Duration, Instant};

use mio::Events;
use tributary_link::{Carried, FramePort, InterfacePort, LinkError, MIN_FRAME_BYTES, Mark};
use tributary_testkit::netns;

use crate::cable;
use crate::cable::{ADDRESSES, Cable, PATIENCE};

/// Returns a frame that is not IP, so that no host handles it.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; len];
    frame[..12].copy_from_slice(&ADDRESSES);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame
}

/// Returns the next frame of the test if it has already arrived.
fn next(port: &mut InterfacePort) -> Option<Vec<u8>> {
    cable::next(port, cable::is_ours)
}

#[test]
fn frames_cross_a_veth_pair_and_nothing_comes_back() {
    let Some(mut cable) = Cable::new() else { return };
    // A virtual cable does not pad frames.
    let lengths = || (MIN_FRAME_BYTES..=64).chain([1_114, 1_514]);
    for len in lengths() {
        cable.left.send(&frame(len)).unwrap();
        cable.left.flush().unwrap();
        assert_eq!(cable.receive(), frame(len));
    }
    assert_eq!(next(&mut cable.left), None, "a port hears its own frames");
    let (frames, bytes) = (lengths().count() as u64, lengths().sum::<usize>() as u64);
    assert_eq!(cable.left.meter().sent.read(), Carried { frames, bytes, lost: 0, dropped: 0 });
    assert!(cable.right.meter().received.read().frames >= frames);

    // A frame longer than the MTU is dropped; the frames before and behind it are not.
    for len in [100, 1_515, 101] {
        cable.left.send(&frame(len)).unwrap();
    }
    cable.left.flush().unwrap();
    assert_eq!(cable.left.meter().sent.read().dropped, 1);
    assert_eq!(cable.receive(), frame(100));
    assert_eq!(cable.receive(), frame(101));
    assert_eq!(cable.left.send(&frame(14)[..13]).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn frames_that_are_sent_together_go_in_their_order_behind_those_that_wait() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    for end in ["left", "right"] {
        netns::ip(&format!("link set {end} mtu 9000"));
    }
    let mut cable = Cable::open();
    // The frames are longer and shorter than a page of the kernel's memory, and one length is too long. There are more
    // frames than one system call sends.
    let lengths: Vec<_> = [60, 4_000, 4_096, 9_015, 9_014].into_iter().cycle().take(100).collect();
    let frames: Vec<_> = lengths.iter().map(|len| frame(*len)).collect();
    let all: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    for waits in [0, 1, 40] {
        let (waiting, rest) = all.split_at(waits);
        waiting.iter().for_each(|frame| cable.left.send(frame).unwrap());
        cable.left.send_all(rest).unwrap();
        for expected in frames.iter().filter(|frame| frame.len() < 9_015) {
            assert!(cable.receive() == *expected);
        }
    }
    let sent = cable.left.meter().sent.read();
    assert_eq!((sent.frames, sent.dropped), (3 * 80, 3 * 20));
    let error = cable.left.send_all(&[&frame(60), &frame(14)[..13]]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

/// Returns a frame with these VLAN tags, the outermost first. Without the tags it has the length of
/// `frame(len)`.
fn tagged(tags: &[[u8; 4]], len: usize) -> Vec<u8> {
    let mut tagged = frame(len);
    tagged.splice(12..12, tags.concat());
    tagged
}

#[test]
fn a_frame_comes_out_with_every_vlan_tag_that_it_had() {
    const CUSTOMER: [u8; 4] = [0x81, 0x00, 0xa0, 0x05];
    const SERVICE: [u8; 4] = [0x88, 0xa8, 0x0f, 0xff];
    const PRIORITY: [u8; 4] = [0x81, 0x00, 0x00, 0x00];
    const OLD: [u8; 4] = [0x91, 0x00, 0x00, 0x07];
    let Some(mut cable) = Cable::new() else { return };
    let stacks: [&[_]; 8] = [
        &[CUSTOMER],
        &[SERVICE],
        &[PRIORITY],
        &[OLD],
        &[SERVICE, CUSTOMER],
        &[CUSTOMER, CUSTOMER],
        &[PRIORITY, SERVICE, CUSTOMER],
        &[],
    ];
    // The tagged frames alternate with untagged frames, and are more than the ring has slots. No tag may stay in a
    // slot.
    for round in 0..400 {
        for tags in stacks {
            cable.left.send(&tagged(tags, 60 + round)).unwrap();
        }
        cable.left.flush().unwrap();
        for tags in stacks {
            assert_eq!(cable.receive(), tagged(tags, 60 + round));
        }
    }
    // A tag does not count towards the MTU.
    cable.left.send(&tagged(&[CUSTOMER], 1_514)).unwrap();
    cable.left.flush().unwrap();
    assert_eq!(cable.receive(), tagged(&[CUSTOMER], 1_514));
    assert_eq!(cable.right.meter().received.read().dropped, 0);
}

/// Returns a frame that contains a number.
fn numbered(number: u32) -> Vec<u8> {
    let mut numbered = frame(60);
    numbered[14..18].copy_from_slice(&number.to_be_bytes());
    numbered
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

#[test]
fn a_port_that_nobody_reads_keeps_the_oldest_frames_and_counts_the_others() {
    const SENT: u32 = 10_000;
    let Some(mut cable) = Cable::new() else { return };
    // Three rounds show that the port continues after a full ring.
    let mut lost = 0;
    for round in 1..=3 {
        for number in 0..SENT {
            cable.left.send(&numbered(number)).unwrap();
        }
        cable.left.flush().unwrap();
        let mut kept = 0;
        while let Some(frame) = next(&mut cable.right) {
            assert_eq!(number_of(&frame), kept);
            kept += 1;
        }
        assert!((1_000..SENT).contains(&kept), "{kept}");
        lost += u64::from(SENT - kept);
        // The kernel reports the loss with the next frame.
        cable.left.send(&frame(70)).unwrap();
        cable.left.flush().unwrap();
        assert_eq!(cable.receive(), frame(70));
        // The kernel's own frames may also have been lost.
        let dropped = cable.right.meter().received.read().dropped;
        assert!((lost..lost + 10 * round).contains(&dropped), "{dropped} counted, {lost} lost");
    }
}

#[test]
fn an_interface_that_goes_down_loses_frames_and_comes_back() {
    let Some(mut cable) = Cable::new() else { return };
    netns::ip("link set left down");
    cable.left.send(&frame(60)).unwrap();
    cable.left.flush().unwrap();
    assert_eq!(cable.left.meter().sent.read().dropped, 1);
    netns::ip("link set left up");
    // The kernel needs some time to bring a link up. Until then, frames are lost.
    let mut events = Events::with_capacity(8);
    let started = Instant::now();
    loop {
        cable.left.send(&frame(61)).unwrap();
        cable.left.flush().unwrap();
        if let Some(arrived) = next(&mut cable.right) {
            assert_eq!(arrived, frame(61));
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the port is dead after its interface was down");
        cable.poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
    }

    netns::ip("link delete left");
    cable.left.send(&frame(60)).unwrap();
    let error = cable.left.flush().unwrap_err();
    assert!(error.to_string().contains("left"), "{error}");
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let error = InterfacePort::open("no-such-if").unwrap_err();
    assert!(matches!(error, LinkError::NoInterface { .. } | LinkError::NotPermitted { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-if"));
}

#[test]
fn a_port_lets_only_frames_with_all_marks_pass() {
    let Some(mut cable) = Cable::new() else { return };
    let marked = |len: usize, value: u16| {
        let mut frame = frame(len);
        frame[len - 2..].copy_from_slice(&value.to_be_bytes());
        frame
    };
    let kind = Mark { at: 12, value: 0x88b5 };
    let wanted = |value| [kind, Mark { at: 58, value }];
    cable.right.pass_only(&wanted(0)).unwrap();
    // This discards the frames that arrived before the filter.
    assert_eq!(next(&mut cable.right), None);
    let before = cable.right.meter().received.read().frames;
    for [passes, stays] in [[7, 8], [8, 7]] {
        // One filter replaces the other.
        cable.right.pass_only(&wanted(passes)).unwrap();
        // The frames have another number, are too short for a number, have another kind, and pass.
        let mut other_kind = marked(60, passes);
        other_kind[13] = 0xb6;
        for frame in [marked(60, stays), frame(59), other_kind, marked(60, passes)] {
            cable.left.send(&frame).unwrap();
        }
        cable.left.flush().unwrap();
        assert_eq!(cable.receive(), marked(60, passes));
        assert_eq!(next(&mut cable.right), None);
    }
    assert_eq!(
        cable.right.meter().received.read().frames,
        before + 2,
        "the others come no further than the kernel"
    );
}
