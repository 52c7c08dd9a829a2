//! Ports that bypass the interface's queue, on a pair of virtual Ethernet interfaces.
//!
//! The tests need root, `ip` and `tc` (iproute2). Without them, they print that and pass.

use std::process::Command;

use tributary_link::{BATCH, FramePort, InterfacePort, LinkError};
use tributary_testkit::netns;

use crate::cable::{ADDRESSES, Cable};

/// Returns a numbered frame that is not IP, so that no host handles it.
fn numbered(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![0xa5; len];
    frame[..12].copy_from_slice(&ADDRESSES);
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Returns a cable with this MTU whose left end bypasses its queue; `None` if no cable can be
/// created.
fn cable(mtu: u16) -> Option<Cable> {
    if !netns::enter_with_veth_pair("left", "right") {
        return None;
    }
    for end in ["left", "right"] {
        netns::ip(&format!("link set {end} mtu {mtu}"));
    }
    let Cable { left, right, poll } = Cable::open();
    Some(Cable { left: left.with_queue_bypass(true).unwrap(), right, poll })
}

#[test]
fn frames_of_all_lengths_come_out_in_their_order_and_are_counted() {
    let Some(mut cable) = cable(9_000) else { return };
    // Most frames bypass the queue. Frames of 3,841 bytes and more go through it, and the last is too long for the
    // interface.
    let lengths = [60, 3_840, 61, 3_841, 1_514, 9_014, 64, 9_015].into_iter().cycle().take(400);
    let frames: Vec<_> = lengths.zip(0..).map(|(len, number)| numbered(number, len)).collect();
    let all: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    cable.left.send_all(&all).unwrap();
    let carried = || frames.iter().filter(|frame| frame.len() < 9_015);
    carried().for_each(|expected| assert!(cable.receive() == *expected));
    let sent = cable.left.meter().sent.read();
    let bytes: usize = carried().map(Vec::len).sum();
    assert_eq!((sent.frames, sent.bytes, sent.dropped), (350, bytes as u64, 50));
}

#[test]
fn what_waits_in_the_queue_or_may_not_pass_it_does_not_hold_them_up() {
    let Some(mut cable) = cable(1_500) else { return };
    // The rate is so low that no frame would arrive within a day.
    let limit = "qdisc add dev left root tbf rate 8bit burst 1 limit 100000";
    match Command::new("tc").args(limit.split(' ')).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => return eprintln!("skipped: there is no tc ({error})"),
    }
    for number in 0..1_000 {
        cable.left.send(&numbered(number, 1_000)).unwrap();
    }
    cable.left.flush().unwrap();
    for number in 0..1_000 {
        assert!(cable.receive() == numbered(number, 1_000));
    }
}

#[test]
fn while_the_interface_is_down_frames_are_dropped_and_counted() {
    const SENT: u32 = 1_000;
    let Some(mut cable) = cable(1_500) else { return };
    netns::ip("link set left down");
    for number in 0..SENT {
        cable.left.send(&numbered(number, 100)).unwrap();
    }
    cable.left.flush().unwrap();
    let sent = cable.left.meter().sent.read();
    let waiting = SENT - u32::try_from(sent.dropped).unwrap();
    // The waiting frames are those of the batch in which the kernel reported that the interface was down.
    assert!(sent.frames == 0 && waiting <= BATCH as u32, "{sent:?}");
    netns::ip("link set left up");
    cable.left.send(&numbered(SENT, 100)).unwrap();
    cable.left.flush().unwrap();
    (0..waiting).chain([SENT]).for_each(|number| assert!(cable.receive() == numbered(number, 100)));
    assert_eq!(cable.left.meter().sent.read().frames, u64::from(waiting) + 1);
}

#[test]
fn what_the_other_end_does_not_take_is_counted_and_the_rest_goes_on() {
    let Some(mut cable) = cable(9_000) else { return };
    netns::ip("link set right mtu 1500");
    let lengths = [100, 2_014, 2_015, 101, 1_514, 3_000, 102, 2_016].into_iter().cycle().take(96);
    let frames: Vec<_> = lengths.zip(0..).map(|(len, number)| numbered(number, len)).collect();
    let all: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    cable.left.send_all(&all).unwrap();
    for expected in frames.iter().filter(|frame| frame.len() < 2_000) {
        assert!(cable.receive() == *expected);
    }
    let sent = cable.left.meter().sent.read();
    assert_eq!((sent.frames, sent.dropped), (48, 48));
    // The interface goes down and up again.
    netns::ip("link set right down");
    for number in 0..50 {
        cable.left.send(&numbered(number, 100)).unwrap();
    }
    cable.left.flush().unwrap();
    netns::ip("link set right up");
    cable.left.send_all(&[&numbered(50, 100)]).unwrap();
    assert!(cable.receive() == numbered(50, 100));
    let sent = cable.left.meter().sent.read();
    assert_eq!((sent.frames, sent.dropped), (49, 98));
}

#[test]
fn one_program_has_the_way_past_an_interfaces_queue() {
    let Some(cable) = cable(1_500) else { return };
    let refused = InterfacePort::open("left").unwrap().with_queue_bypass(true).unwrap_err();
    assert!(matches!(&refused, LinkError::Interface { name, .. } if name == "left"));
    assert!(refused.to_string().contains("another program"), "{refused}");
    // A closed socket makes room for the next one.
    drop(cable);
    for _ in 0..20 {
        InterfacePort::open("left").unwrap().with_queue_bypass(true).unwrap();
    }
    // The option has no effect on interfaces of another kind.
    netns::ip("link set lo up");
    InterfacePort::open("lo").unwrap().with_queue_bypass(true).unwrap();
}
