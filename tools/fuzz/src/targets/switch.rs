//! Frames, as a switch receives them.
//!
//! The switch is the embedded switch with the real program and the tables of two jobs.
//!
//! An input is some frames, each with its ingress port. The attackers have the ports of the first job, and an
//! unused port. The target checks that frames leave only at ports of the job, and in no more copies than the
//! multicast groups define. It also checks the second job's sum, which begins before the input and ends after
//! it: no other job can change that sum.

use std::cell::RefCell;
use std::sync::Arc;

use tributary_softswitch::control::{MulticastGroup, Replica};
use tributary_softswitch::{Outputs, Switch};
use tributary_wire::{FrameView, Header, Kind, Operator, Rank};

use crate::finding::sound;
use crate::input::Input;
use crate::packets::{self, Values, hop, values, with_checksum};
use crate::program::{PIPELINE, call, entry, table};
use crate::{Seed, Target};

const NODE: u16 = 7;
const JOB: u16 = 0x1234;
/// Ports to the job's members and to its parent.
const CHILDREN: [u16; 2] = [1, 2];
const UP: u16 = 9;
/// The id of the second job.
const OTHER: u16 = 0x0777;
const OTHERS_CHILDREN: [u16; 2] = [4, 5];
const OTHERS_UP: u16 = 10;
/// The attackers' ports. No frame may leave at the last port.
const PORTS: [u16; 4] = [CHILDREN[0], CHILDREN[1], UP, NOBODY];
const NOBODY: u16 = 3;
/// Values of `kinds` in the table `admission`.
const GRADIENT: u64 = 1;
const RESULT: u64 = 2;
const WINDOW: u64 = 16;
/// The most frames in one input.
const FRAMES: usize = 8;
/// The flag of a frame whose IPv4 checksum is corrected.
const REPAIRED: u8 = 1;

pub(super) const TARGET: Target = Target {
    name: "switch",
    about: "frames at the embedded switch: port, flags, length, frame, up to eight times",
    max_len: 6000,
    tries: 600,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let mut switch = switch();
    let mut outputs = Outputs::new();
    let first = others_gradient(0);
    switch.process(OTHERS_CHILDREN[0], &first, &mut outputs);
    assert!(outputs.is_empty(), "half a sum has left");
    let mut input = Input(bytes);
    for _ in 0..FRAMES {
        if input.is_empty() {
            break;
        }
        let port = PORTS[usize::from(input.byte()) % PORTS.len()];
        let (flags, len) = (input.byte(), input.number());
        let frame = input.take(len);
        let repaired = (flags & REPAIRED != 0).then(|| with_checksum(frame));
        outputs.clear();
        switch.process(port, repaired.as_deref().unwrap_or(frame), &mut outputs);
        check(frame, &outputs);
    }
    outputs.clear();
    switch.process(OTHERS_CHILDREN[1], &others_gradient(1), &mut outputs);
    let sum = outputs.iter().next();
    let (port, frame) = sound(sum.ok_or("the other job's sum is gone"));
    let view = sound(FrameView::parse(frame));
    let sum: Vec<i32> = view.message().values().into_iter().flat_map(|values| values.iter()).collect();
    let expected: Values = std::array::from_fn(|lane| values(0)[lane].wrapping_add(values(1)[lane]));
    assert_eq!((port, sum), (OTHERS_UP, expected.to_vec()), "somebody has changed the other job's sum");
    assert_eq!(view.message().header().totals.contributors, 2);
}

/// Checks the frames that leave the switch because of one frame.
fn check(frame: &[u8], outputs: &Outputs) {
    assert!(outputs.len() <= CHILDREN.len(), "{} copies of one frame", outputs.len());
    for (port, out) in outputs.iter() {
        assert!(CHILDREN.contains(&port) || port == UP, "a frame has left at port {port}");
        assert!(out.len() <= frame.len(), "{} bytes of {}", out.len(), frame.len());
    }
}

/// Makes a gradient of the second job.
fn others_gradient(child: u8) -> Vec<u8> {
    let header = packets::header(Kind::Gradient, OTHER, child.into(), 1);
    let hops = [hop(NODE, OTHERS_UP, child, 2), hop(1000, 0, 0, 1)];
    packets::frame(header, &hops, Some(&values(child.into())))
}

/// Makes a switch with its tables, as the controller writes them.
///
/// Each input gets a new switch, so that inputs are independent.
fn switch() -> Switch {
    let mut switch = Switch::new(Arc::clone(&PIPELINE));
    TABLES.with_borrow(|tables| {
        sound(switch.set_default(tables.0, Some(&call("set_identity", &[NODE.into()]))));
        tables.1.iter().for_each(|entry| sound(switch.insert(entry)));
    });
    let replicas = CHILDREN.map(|port| Replica { port, instance: 1 }).to_vec();
    sound(switch.insert_group(&MulticastGroup { id: 5, replicas, ..Default::default() }));
    switch
}

type Tables = (u32, Vec<tributary_softswitch::control::TableEntry>);

thread_local! {
    static TABLES: RefCell<Tables> = RefCell::new((table("identity"), entries()));
}

fn entries() -> Vec<tributary_softswitch::control::TableEntry> {
    let mut all = Vec::new();
    for (index, (job, children, up)) in
        [(JOB, CHILDREN, UP), (OTHER, OTHERS_CHILDREN, OTHERS_UP)].into_iter().enumerate()
    {
        let index = index as u64;
        let base = WINDOW * (index + 1);
        let mut admit = |port: u16, children: u64, kinds: u64, fan_in: u64| {
            let arguments = [index, base, WINDOW - 1, children, kinds, 1, fan_in, Rank::ALL.get().into()];
            all.push(entry("admission", &[job.into(), port.into()], call("admit", &arguments)));
            all.push(entry("egress_guard", &[job.into(), port.into()], call("allow", &[])));
        };
        admit(children[0], 1, GRADIENT, 2);
        admit(children[1], 2, GRADIENT, 2);
        admit(up, 0, RESULT, 0);
    }
    all.push(entry("result_group", &[JOB.into()], call("deliver", &[5, 1])));
    all
}

fn seeds() -> Vec<Seed> {
    let sent =
        |port: u8, frame: &[u8]| [&[port, REPAIRED][..], &(frame.len() as u16).to_be_bytes(), frame].concat();
    let gradient = |child: u8| {
        let header = packets::header(Kind::Gradient, JOB, child.into(), 1);
        let hops = [hop(NODE, UP, child, 2), hop(1000, 0, 0, 1)];
        (header, hops)
    };
    let frame = |child: u8, change: fn(Header) -> Header, has_values: bool| {
        let (header, hops) = gradient(child);
        let values = values(child.into());
        sent(child, &packets::frame(change(header), &hops, has_values.then_some(&values)))
    };
    let same = |header: Header| header;
    let result = |header: Header| Header { kind: Kind::Result, rank: Rank::ALL, ..header };
    let multicast = sent(2, &packets::frame(result(gradient(0).0), &[], Some(&values(2))));
    let unicast = sent(2, &packets::frame(result(gradient(0).0), &[hop(NODE, 1, 0, 0)], Some(&values(2))));
    let again = |header: Header| Header { retransmit: true, ..header };
    let max = |header: Header| Header { operator: Operator::Max, ..header };
    vec![
        ("both".to_owned(), [frame(0, same, true), frame(1, same, true)].concat()),
        ("both-and-result".to_owned(), [frame(0, same, true), frame(1, same, true), multicast].concat()),
        ("retransmitted".to_owned(), [frame(0, same, true), frame(0, again, true), unicast].concat()),
        ("max".to_owned(), [frame(0, max, true), frame(1, max, true)].concat()),
        ("probe".to_owned(), frame(1, again, false)),
    ]
}
