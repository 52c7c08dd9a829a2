//! Ports for one EtherType on a pair of virtual Ethernet interfaces, in the test's own network
//! namespace.
//!
//! The test needs root and `ip` (iproute2). Without them, it prints that and passes.

use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};
use tributary_link::{EtherTypePort, FramePort, InterfaceCondition, InterfacePort, LinkError};
use tributary_testkit::netns;

const GROUP: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
const ETHER_TYPE: u16 = 0x88b5;

/// Returns a frame to the multicast group.
fn frame(ether_type: u16, len: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; len];
    frame[..6].copy_from_slice(&GROUP);
    frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
    frame
}

#[test]
fn frames_of_its_type_come_in_and_no_others() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("link set left mtu 9000");
    netns::ip("link set right mtu 9000");
    let mut right = EtherTypePort::open("right", ETHER_TYPE, GROUP).unwrap();
    let mut poll = Poll::new().unwrap();
    right.register(poll.registry(), Token(1)).unwrap();
    let mut all = InterfacePort::open("left").unwrap();
    for frame in [frame(0x88b6, 60), frame(ETHER_TYPE, 60), frame(0x0800, 60), frame(ETHER_TYPE, 9_014)] {
        all.send(&frame).unwrap();
    }
    all.flush().unwrap();
    let mut events = Events::with_capacity(8);
    let mut heard = Vec::new();
    while heard.len() < 2 {
        poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
        assert!(!events.is_empty(), "no frame within 10 s");
        while let Some(frame) = right.receive().unwrap() {
            heard.push(frame.to_vec());
        }
    }
    assert_eq!(heard, [frame(ETHER_TYPE, 60), frame(ETHER_TYPE, 9_014)]);

    // The frame crosses in the other direction, and does not come back to its sender.
    right.send(&frame(ETHER_TYPE, 62)).unwrap();
    assert_eq!(right.receive().unwrap(), None);
    all.register(poll.registry(), Token(2)).unwrap();
    loop {
        match all.receive().unwrap() {
            Some(heard) if heard == frame(ETHER_TYPE, 62) => break,
            // The frame is one of the kernel's own frames on a new interface.
            Some(_) => {}
            None => {
                poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
                assert!(!events.is_empty(), "no frame within 10 s");
            }
        }
    }
}

#[test]
fn the_interfaces_own_address_is_known_and_one_that_is_down_is_no_error() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    netns::ip("link set left address 02:00:00:00:00:17");
    let mut left = EtherTypePort::open("left", ETHER_TYPE, GROUP).unwrap();
    assert_eq!(left.address(), [2, 0, 0, 0, 0, 0x17]);
    netns::ip("link set left down");
    left.send(&frame(ETHER_TYPE, 60)).unwrap();
    assert_eq!(left.receive().unwrap(), None);
    let error = EtherTypePort::open("middle", ETHER_TYPE, GROUP).unwrap_err();
    assert!(matches!(error, LinkError::NoInterface { .. }), "{error:?}");
}

#[test]
fn the_first_frame_after_the_interface_was_down_is_sent() {
    if !netns::enter_with_veth_pair("left", "right") {
        return;
    }
    let mut left = EtherTypePort::open("left", ETHER_TYPE, GROUP).unwrap();
    let mut right = EtherTypePort::open("right", ETHER_TYPE, GROUP).unwrap();
    for number in 0..3 {
        netns::ip("link set left down");
        netns::ip("link set left up");
        let deadline = Instant::now() + Duration::from_secs(60);
        while !InterfaceCondition::of("right").unwrap().is_up {
            assert!(Instant::now() < deadline, "the link does not come up");
        }
        left.send(&frame(ETHER_TYPE, 60 + number)).unwrap();
        assert_eq!(right.receive().unwrap(), Some(&frame(ETHER_TYPE, 60 + number)[..]));
    }
}
