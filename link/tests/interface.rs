//! Ports on a pair of virtual Ethernet interfaces, in a network namespace of the test's own.
//!
//! Needs root and `ip` (iproute2); says so and passes where they are missing.

#![allow(clippy::unwrap_used)] // helpers of tests

mod netns;

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tributary_link::{Carried, FramePort, InterfacePort, LinkError};

/// Not IP, so that no host takes it for its own.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; len];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame
}

/// The next frame of [`frame`]'s kind that is there; the kernel's own chatter on a new interface is passed over.
fn next(port: &mut InterfacePort) -> Option<Vec<u8>> {
    while let Some(frame) = port.receive().unwrap() {
        if frame[12..14] == [0x88, 0xb5] {
            return Some(frame.to_vec());
        }
    }
    None
}

/// Waits for the next frame.
fn receive(port: &mut InterfacePort, poll: &mut Poll) -> Vec<u8> {
    let mut events = Events::with_capacity(8);
    loop {
        if let Some(frame) = next(port) {
            return frame;
        }
        poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(!events.is_empty(), "no frame within 10 s");
    }
}

#[test]
fn frames_cross_a_veth_pair_and_nothing_comes_back() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let mut left = InterfacePort::open("left").unwrap();
    let mut right = InterfacePort::open("right").unwrap();
    let mut poll = Poll::new().unwrap();
    right.register(poll.registry(), Token(1)).unwrap();
    for len in [60, 1_114, 1_514] {
        left.send(&frame(len)).unwrap();
        left.flush().unwrap();
        assert_eq!(receive(&mut right, &mut poll), frame(len));
    }
    assert_eq!(next(&mut left), None, "a port hears its own frames");
    assert_eq!(left.meter().sent.read(), Carried { frames: 3, bytes: 2_688, lost: 0, dropped: 0 });
    assert!(right.meter().received.read().frames >= 3);

    left.send(&frame(1_515)).unwrap();
    assert_eq!(left.meter().sent.read().dropped, 1, "longer than the MTU");
    assert_eq!(left.send(&frame(14)[..13]).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn an_interface_that_goes_down_loses_frames_and_comes_back() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let mut left = InterfacePort::open("left").unwrap();
    let mut right = InterfacePort::open("right").unwrap();
    let mut poll = Poll::new().unwrap();
    right.register(poll.registry(), Token(1)).unwrap();
    netns::ip("link set left down");
    left.send(&frame(60)).unwrap();
    assert_eq!(left.meter().sent.read().dropped, 1);
    netns::ip("link set left up");
    // The kernel takes its time to bring a link up; until then frames are lost.
    let mut events = Events::with_capacity(8);
    let started = Instant::now();
    loop {
        left.send(&frame(61)).unwrap();
        if let Some(arrived) = next(&mut right) {
            assert_eq!(arrived, frame(61));
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(10), "the port is dead after its interface was down");
        poll.poll(&mut events, Some(Duration::from_millis(10))).unwrap();
    }

    netns::ip("link delete left");
    let error = left.send(&frame(60)).unwrap_err();
    assert!(error.to_string().contains("left"), "{error}");
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let error = InterfacePort::open("no-such-if").unwrap_err();
    assert!(matches!(error, LinkError::NoInterface { .. } | LinkError::NotPermitted { .. }), "{error:?}");
    assert!(error.to_string().contains("no-such-if"));
}
