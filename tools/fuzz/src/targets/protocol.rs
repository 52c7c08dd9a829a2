//! A whole job with an attacker on the links who does not have the secret.
//!
//! The job has two workers and a server that reads the sums. An input determines the packets that arrive: in
//! any order, any number of times, with bytes changed, or with other packets in their place. It also lets
//! time pass. The target checks these properties: an operation ends with exactly the sum of an undisturbed
//! job, or with an error; no worker accepts a slice with other values or sums; and without changed packets no
//! operation fails. (The chance of a forgery is 2^-61 per attempt, so that no run will see one.)

use std::collections::{BTreeMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

use tributary_protocol::{
    AllReduce, Downlink, GradientData, OperationEvent, OperationId, Reduced, Server, ServerConfig, Stripe,
    Time, Timers, Worker, WorkerConfig, vouching_key,
};
use tributary_wire::{Hop, JobId, JobSecret, Kind, MessageView, Operator, Rank, Seq, SliceWidth, Totals};

use crate::finding::sound;
use crate::input::Input;
use crate::packets::{self, header, hop, values};
use crate::{Seed, Target};

const JOB: u16 = 5;
const WORKERS: [Rank; 2] = [Rank::new(0), Rank::new(1)];
const WINDOW: u32 = 4;
/// Number of packets that the attacker keeps, and can send again later.
const REMEMBERED: usize = 48;
/// The most steps of one input.
const STEPS: usize = 48;

pub(super) const TARGET: Target = Target {
    name: "protocol",
    about: "a job with an attacker on its wire, who has not got its secret",
    max_len: 3000,
    tries: 400,
    run,
    seeds,
};

/// The recipient of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Worker(usize),
    Server,
}

/// A job, and the packets on its links.
#[derive(Clone)]
struct World {
    now: Time,
    workers: Vec<Worker>,
    server: Server,
    /// INA messages and their recipients.
    wire: VecDeque<(End, Vec<u8>)>,
    outcomes: Vec<(End, OperationEvent)>,
    /// For each end, true if an operation has failed there. The server is the last end.
    ///
    /// An end with a failed operation no longer checks sums.
    has_failed: [bool; 3],
}

/// The agreed result of one slice.
#[derive(Debug, Clone, PartialEq)]
struct Slice {
    operator: Operator,
    totals: Totals,
    values: Box<[u8]>,
}

/// The results of an undisturbed run of the job.
struct Truth {
    begin: World,
    operations: BTreeMap<OperationId, Reduced>,
    slices: BTreeMap<u32, Slice>,
}

static TRUTH: LazyLock<Truth> = LazyLock::new(|| {
    let begin = World::new();
    let mut world = begin.clone();
    let mut slices = BTreeMap::new();
    while !world.workers.iter().all(Worker::is_idle) {
        world.send();
        let sent = std::mem::take(&mut world.wire);
        assert!(!sent.is_empty(), "an undisturbed job hangs");
        for (end, bytes) in sent {
            if let Some((seq, slice)) = result(&bytes) {
                slices.insert(seq.0, slice);
            }
            world.deliver(end, &bytes);
        }
    }
    let mut operations = BTreeMap::new();
    for (_, outcome) in world.outcomes {
        let OperationEvent::Completed { operation, reduced } = outcome else { continue };
        assert!(operations.insert(operation, reduced.clone()).is_none_or(|earlier| earlier == reduced));
    }
    assert_eq!(operations.len(), operations_of(0).len());
    Truth { begin, operations, slices }
});

/// Returns a RESULT's sequence number and contents.
fn result(bytes: &[u8]) -> Option<(Seq, Slice)> {
    let view = MessageView::parse(bytes).ok()?;
    let header = view.header();
    let values = view.values()?.bytes().into();
    let slice = Slice { operator: header.operator, totals: header.totals, values };
    (header.kind == Kind::Result).then_some((header.seq, slice))
}

/// Returns a worker's operations.
fn operations_of(worker: usize) -> Vec<AllReduce> {
    let sign = if worker == 0 { 1 } else { -3 };
    let integers = (0..300).map(|i: i32| sign * i).collect();
    let floats = (0..10_i16).map(|i| f32::from(i) * 0.37 * sign as f32).collect();
    let operation = |name: &str, data| AllReduce { name: name.to_owned(), data, weight: 1 + worker as u32 };
    vec![
        operation("integers", GradientData::I32(integers)),
        operation("floats", GradientData::F32(floats)),
        operation("barrier", GradientData::I32(Vec::new())),
    ]
}

impl World {
    fn new() -> Self {
        let secret = JobSecret::new([0x5e; JobSecret::BYTES]);
        let job = sound(JobId::new(JOB).ok_or("job 0"));
        let worker = |at: usize| {
            let config = WorkerConfig {
                stripe: Stripe::WHOLE,
                job,
                rank: WORKERS[at],
                members: WORKERS.to_vec(),
                secret: secret.clone(),
                confidential: false,
                width: SliceWidth::ETHERNET,
                window: WINDOW,
                start: Seq::FIRST,
                begun: 0,
                timers: Timers::default(),
            };
            let mut worker = sound(Worker::new(config));
            for operation in operations_of(at) {
                sound(worker.start_all_reduce(operation));
            }
            worker
        };
        let config = ServerConfig {
            stripe: Stripe::WHOLE,
            job,
            members: WORKERS.to_vec(),
            width: SliceWidth::ETHERNET,
            window: WINDOW,
            start: Seq::FIRST,
            fan_in: 2,
            downlink: Downlink::Multicast,
            vouching_key: vouching_key(&secret),
            reads: Some(secret.clone()),
            confidential: false,
        };
        let mut server = sound(Server::new(config));
        for operation in operations_of(0) {
            sound(server.expect(operation.tensor()));
        }
        Self {
            now: Time::ZERO,
            workers: vec![worker(0), worker(1)],
            server,
            wire: VecDeque::new(),
            outcomes: Vec::new(),
            has_failed: [false; 3],
        }
    }

    /// Puts all packets that workers may send on the links.
    fn send(&mut self) {
        for (at, worker) in self.workers.iter_mut().enumerate() {
            while let Some(out) = worker.poll_transmit(self.now) {
                let message = packets::message(out.header, &[server_hop(at)], out.values);
                self.wire.push_back((End::Server, message));
            }
        }
        let oldest = self.wire.len().saturating_sub(REMEMBERED);
        self.wire.drain(..oldest);
    }

    /// Delivers a packet, and puts the replies on the links.
    fn deliver(&mut self, end: End, bytes: &[u8]) {
        let Ok(view) = MessageView::parse(bytes) else { return };
        match end {
            End::Worker(at) => {
                let worker = &mut self.workers[at];
                worker.handle_result(self.now, view.header(), view.values());
                let events = std::iter::from_fn(|| worker.poll_event());
                self.outcomes.extend(events.map(|event| (end, event)));
            }
            End::Server => {
                if let Some(hop) = view.hops().last() {
                    self.server.handle_gradient(self.now, view.header(), &hop, view.values());
                }
                while let Some(out) = self.server.poll_transmit() {
                    let message = packets::message(out.header, &[], out.values);
                    (0..WORKERS.len()).for_each(|at| self.wire.push_back((End::Worker(at), message.clone())));
                }
                let events = std::iter::from_fn(|| self.server.poll_event());
                self.outcomes.extend(events.map(|event| (end, event)));
            }
        }
        for (end, outcome) in &self.outcomes {
            self.has_failed[end.index()] |= matches!(outcome, OperationEvent::Failed { .. });
        }
    }

    fn pass_time(&mut self, by: Duration) {
        self.now = Time::from_nanos(self.now.as_nanos() + by.as_nanos() as u64);
        self.workers.iter_mut().for_each(|worker| worker.handle_timeout(self.now));
    }
}

impl End {
    fn index(self) -> usize {
        match self {
            Self::Worker(at) => at,
            Self::Server => WORKERS.len(),
        }
    }

    fn of(number: u8) -> Self {
        match usize::from(number) % (WORKERS.len() + 1) {
            at if at < WORKERS.len() => Self::Worker(at),
            _ => Self::Server,
        }
    }
}

fn server_hop(child: usize) -> Hop {
    hop(1000, 0, child as u8, 2)
}

fn run(bytes: &[u8]) {
    let mut world = TRUTH.begin.clone();
    let mut input = Input(bytes);
    let mut is_disturbed = false;
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        is_disturbed |= step(&mut world, &mut input);
        world.send();
    }
    for (end, outcome) in &world.outcomes {
        match outcome {
            OperationEvent::Completed { operation, reduced } => {
                assert_eq!(Some(reduced), TRUTH.operations.get(operation), "a wrong sum at {end:?}");
            }
            OperationEvent::Failed { error, .. } => {
                assert!(is_disturbed, "{error} at {end:?} without a reason");
            }
        }
    }
}

/// Makes one step. Returns true if it was an attack.
fn step(world: &mut World, input: &mut Input<'_>) -> bool {
    let what = input.byte();
    match what % 6 {
        // The next packet arrives, and may come a second time.
        0 => {
            if let Some((end, bytes)) = picked(world, what >> 3, input.byte()) {
                believe(world, end, &bytes);
            }
            false
        }
        // All packets arrive.
        1 => {
            for (end, bytes) in std::mem::take(&mut world.wire) {
                believe(world, end, &bytes);
            }
            false
        }
        // A packet arrives with some bytes changed.
        2 | 3 => {
            let Some((end, mut bytes)) = picked(world, what >> 3, input.byte()) else { return false };
            for _ in 0..=what >> 6 {
                let (at, with) = (input.number() % bytes.len(), input.byte());
                bytes[at] ^= with;
            }
            believe(world, end, &bytes);
            true
        }
        // Another packet arrives instead of the next packet.
        4 => {
            let len = input.number();
            believe(world, End::of(what >> 3), input.take(len));
            true
        }
        _ => {
            world.pass_time(Duration::from_millis(u64::from(input.byte()).pow(2)));
            false
        }
    }
}

fn picked(world: &mut World, stays: u8, number: u8) -> Option<(End, Vec<u8>)> {
    let at = usize::from(number).checked_rem(world.wire.len())?;
    if stays & 1 == 0 { world.wire.get(at).cloned() } else { world.wire.remove(at) }
}

/// Delivers a packet, and checks the slice that a worker accepts.
///
/// Lanes after a tensor's last bound have no meaning, so slices of bounds are only checked through the sums
/// that depend on them.
fn believe(world: &mut World, end: End, bytes: &[u8]) {
    let accepted = |world: &World| match end {
        End::Worker(at) => world.workers[at].stats().results,
        End::Server => 0,
    };
    let before = accepted(world);
    world.deliver(end, bytes);
    if accepted(world) == before || world.has_failed[end.index()] {
        return;
    }
    let (seq, slice) = sound(result(bytes).ok_or("what is no result was believed"));
    let truth = sound(TRUTH.slices.get(&seq.0).ok_or("a slice was believed that nobody has summed"));
    assert_eq!(slice.totals.contributors, truth.totals.contributors, "slice {seq}");
    assert_eq!((slice.operator, slice.totals.weight), (truth.operator, truth.totals.weight), "slice {seq}");
    if slice.operator == Operator::Sum {
        assert_eq!(&slice.values, &truth.values, "slice {seq} at {end:?}");
    }
}

fn seeds() -> Vec<Seed> {
    let all_arrives = [1_u8; 12].to_vec();
    let changed = |number: u8, at: u16, with: u8| {
        let [high, low] = at.to_be_bytes();
        vec![2, number, high, low, with]
    };
    let forged = |to: u8, bytes: &[u8]| {
        let [high, low] = (bytes.len() as u16).to_be_bytes();
        [&[to * 24 + 4 + 6 * u8::from(to > 0), high, low][..], bytes].concat()
    };
    let gradient = packets::message(header(Kind::Gradient, JOB, 0, 1), &[server_hop(0)], Some(&values(0)));
    let result = packets::message(header(Kind::Result, JOB, 0xffff, 1), &[], Some(&values(0)));
    vec![
        ("undisturbed".to_owned(), all_arrives.clone()),
        ("late".to_owned(), [&[5, 9, 5, 200, 0, 1, 8, 0, 8, 0][..], &all_arrives].concat()),
        ("value".to_owned(), [&[1, 1][..], &changed(0, 40, 1), &changed(1, 40, 1), &all_arrives].concat()),
        (
            "weight".to_owned(),
            [&[1][..], &changed(0, 19, 1), &[5, 30], &changed(1, 19, 3), &all_arrives].concat(),
        ),
        ("bound".to_owned(), [&changed(0, 35, 0x40)[..], &all_arrives].concat()),
        ("gradient".to_owned(), [forged(2, &gradient), all_arrives.clone()].concat()),
        ("result".to_owned(), [forged(0, &result), forged(0, &result), all_arrives].concat()),
    ]
}
