//! Measures how many slices a second a worker and its server process, by the number of threads.
//!
//! A job of one worker runs in this process. Each thread runs one stripe of the worker and, inside its port, the server of
//! that stripe, so that the threads share only the memory's bandwidth. Every sum is checked.
#![allow(clippy::expect_used, clippy::panic, reason = "a failed step ends the benchmark")]

use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use tributary_api::{Downlink, Endpoint, JobConfig, ProcessCounts, Role};
use tributary_host_agent::WorkerAgent;
use tributary_link::{FramePort, InProcessPort, LinkConfig, link};
use tributary_protocol::{
    AllReduce, GradientData, JointAllReduce, Server, ServerConfig, Stripe, Sums, Time, Timers, vouching_key,
};
use tributary_wire::frame::{self, FrameHeader, FrameView};
use tributary_wire::{Hop, JobId, JobSecret, MacAddr, Message, NodeId, Rank, SliceWidth};

/// The slots of the job.
const WINDOW: u32 = 256;
/// The elements of an all-reduce: 32 MiB.
const ELEMENTS: usize = 8 << 20;
/// The all-reduces of a measurement, after one that does not count.
const ALL_REDUCES: usize = 4;
/// The measurements with each number of threads. They take turns.
const ROUNDS: usize = 5;

fn endpoint(number: u8) -> Endpoint {
    Endpoint { mac: MacAddr::new(2, 0, 0, 0, 0, number), ip: Ipv4Addr::new(10, 0, 0, number) }
}

/// Returns the configuration of the only worker, with this number of stripes.
fn config(threads: u32, width: SliceWidth) -> JobConfig {
    let node = NodeId::new(9).expect("a node's id");
    let hop = Hop { node, egress_port: 0, aggregate: true, child: 0, fan_in: 1 };
    let (rank, secret) = (Rank::new(0), JobSecret::new([7; JobSecret::BYTES]));
    let stripes = Stripe::all(threads, WINDOW).expect("a number of stripes");
    JobConfig {
        name: "threads".to_owned(),
        job: JobId::new(7).expect("a job's id"),
        width,
        window: WINDOW,
        generation: 1,
        start_seqs: stripes.map(Stripe::first).collect(),
        begun: 0,
        downlink: Downlink::Unicast,
        slice_time: Duration::ZERO,
        switches: 0,
        ranks: vec![rank],
        joined: Vec::new(),
        regroup: false,
        adopted: Vec::new(),
        processes: ProcessCounts::default(),
        reason: String::new(),
        own: endpoint(1),
        server: endpoint(2),
        multicast: endpoint(3),
        role: Role::Worker { rank, up: vec![hop], secret, confidential: false },
    }
}

/// A port behind which the server of one stripe answers at once.
struct ServedPort {
    server: Server,
    near: InProcessPort,
    far: InProcessPort,
    addresses: FrameHeader,
    answer: Vec<u8>,
    begin: Instant,
}

impl ServedPort {
    fn new(config: &JobConfig, stripe: Stripe) -> Self {
        let Role::Worker { secret, .. } = &config.role else { panic!("a worker's configuration") };
        let server = Server::new(ServerConfig {
            job: config.job,
            members: config.ranks.clone(),
            width: config.width,
            window: config.window,
            stripe,
            start: config.start_seqs[0],
            fan_in: 1,
            downlink: config.downlink,
            vouching_key: vouching_key(secret),
            reads: None,
            confidential: false,
        })
        .expect("a server");
        let queue_frames = 2 * WINDOW as usize;
        let (near, far, _) = link(&LinkConfig { loss: 0.0, seed: 0, queue_frames }).expect("a link");
        let addresses = FrameHeader {
            source_mac: config.server.mac,
            destination_mac: config.own.mac,
            source_ip: config.server.ip,
            destination_ip: config.own.ip,
        };
        let answer = vec![0; frame::longest_frame(config.width)];
        Self { server, near, far, addresses, answer, begin: Instant::now() }
    }
}

impl FramePort for ServedPort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let view = FrameView::parse(frame).expect("a frame of the worker");
        let (message, now) = (view.message(), Time::ZERO + self.begin.elapsed());
        let hop = message.hops().next().expect("the server's hop");
        self.server.handle_gradient(now, message.header(), &hop, message.values());
        while let Some(result) = self.server.poll_transmit() {
            let message = Message { header: result.header, hops: &[], values: result.values };
            let len = frame::emit(&self.addresses, &message, &mut self.answer).expect("a result");
            self.far.send(&self.answer[..len])?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.far.flush()
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        self.near.receive()
    }

    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.near.register(registry, token)
    }
}

/// Returns the slices that a worker with this number of threads processes in a second.
fn slices_per_second(threads: u32, width: SliceWidth) -> f64 {
    let config = config(threads, width);
    let stripes = Stripe::all(threads, WINDOW).expect("a number of stripes");
    let port = |stripe| Box::new(ServedPort::new(&config, stripe)) as Box<dyn FramePort>;
    let timers = Timers::default();
    let worker = WorkerAgent::start_threads(&config, timers, stripes.map(port).collect()).expect("a worker");
    let values: Vec<f32> = (0..ELEMENTS).map(|at| (at % 1021) as f32 - 510.0).collect();
    let slices = || worker.stats().expect("counters").protocol.results;
    let parts = |values: Vec<f32>, number: usize| {
        let data = GradientData::F32(values);
        JointAllReduce::from(AllReduce { name: number.to_string(), data, weight: 1 }).divided(threads, width)
    };
    let (mut took, mut before) = (Duration::ZERO, 0);
    for number in 0..=ALL_REDUCES {
        let operations = parts(values.clone(), number);
        let begin = Instant::now();
        let reduced = worker.all_reduce_stripes(operations).expect("a sum");
        took += begin.elapsed();
        let Sums::F32(sums) = reduced.joined().sums else { panic!("sums of another type") };
        assert!(sums == values, "a worker alone gets its own values");
        if number == 0 {
            (took, before) = (Duration::ZERO, slices());
        }
    }
    (slices() - before) as f64 / took.as_secs_f64()
}

fn main() {
    for width in [SliceWidth::ETHERNET, SliceWidth::WIDEST] {
        let mut measured = [1, 2, 4].map(|threads| (threads, Vec::new()));
        for _ in 0..ROUNDS {
            for (threads, rates) in &mut measured {
                rates.push(slices_per_second(*threads, width));
            }
        }
        let one = median(&mut measured[0].1);
        for (threads, rates) in &mut measured {
            let rate = median(rates);
            println!(
                "{:>4} values a slice, {threads} threads: {rate:>9.0} slices/s, {:.2} times one thread's",
                width.values(),
                rate / one
            );
        }
    }
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
