//! Frames of a job as anybody could make them who knows all of it but its secret, and as its members have sent them.

use tributary_api::{Endpoint, JobConfig, Role};
use tributary_protocol::{
    AllReduce, Downlink, GradientData, Server, ServerConfig, Time, Timers, Worker, WorkerConfig,
};
use tributary_wire::constants::{VALUES_BYTES, VALUES_PER_SLICE};
use tributary_wire::frame::{self, FrameHeader};
use tributary_wire::{Header, Hop, Kind, Message, Operator, Seq, Tag, Tally, ValuesView, values};

/// One packet, to be made worse.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) hops: Vec<Hop>,
    /// None in a PROBE.
    pub(crate) values: Option<[i32; VALUES_PER_SLICE]>,
    from: Endpoint,
    to: Endpoint,
}

impl Packet {
    /// What a worker's next gradient would be, but for the tag.
    pub(crate) fn gradient(worker: &JobConfig) -> Self {
        let Role::Worker { rank, up, .. } = &worker.role else { panic!("not what a worker was told") };
        let header = Header {
            kind: Kind::Gradient,
            operator: Operator::Sum,
            retransmit: false,
            job: worker.job,
            rank: *rank,
            seq: worker.start_seq,
            tally: Tally { contributors: 1, weight: 1, tag: Tag { high: 5, low: 6 } },
        };
        let values = Some([1_000_000; VALUES_PER_SLICE]);
        Self { header, hops: up.clone(), values, from: worker.own, to: worker.server }
    }

    /// A sum of all, from nowhere.
    pub(crate) fn result(worker: &JobConfig, seq: Seq) -> Self {
        let gradient = Self::gradient(worker);
        let tally =
            Tally { contributors: worker.ranks.len() as u32, weight: 2, tag: Tag { high: 5, low: 6 } };
        let header = Header { kind: Kind::Result, seq, tally, ..gradient.header };
        Self { header, hops: Vec::new(), from: worker.server, to: worker.multicast, ..gradient }
    }

    pub(crate) fn probe(worker: &JobConfig) -> Self {
        Self { values: None, ..Self::gradient(worker) }
    }

    /// The first hop is another one.
    pub(crate) fn with_hop(mut self, change: impl FnOnce(&mut Hop)) -> Self {
        change(&mut self.hops[0]);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let message = Message { header: self.header, hops: &self.hops, values: self.values.as_ref() };
        let header = FrameHeader {
            source_mac: self.from.mac,
            destination_mac: self.to.mac,
            source_ip: self.from.ip,
            destination_ip: self.to.ip,
        };
        let mut bytes = vec![0; frame::frame_len(&message)];
        frame::emit(&header, &message, &mut bytes).unwrap();
        bytes
    }
}

/// What `of` sends in its job's first all-reduce: played through with all that members know, as whoever has recorded it
/// on the wire has it.
pub(crate) fn recorded(
    configs: impl Iterator<Item = JobConfig>,
    of: u16,
    values_of: impl Fn(u16) -> Vec<i32>,
) -> Vec<Vec<u8>> {
    let configs: Vec<_> = configs.collect();
    let mut workers: Vec<_> = configs.iter().map(|config| worker(config, &values_of)).collect();
    let mut server = server(&configs[0]);
    let (mut frames, mut bytes) = (Vec::new(), [0; VALUES_BYTES]);
    while workers.iter_mut().all(|worker| worker.poll_event().is_none()) {
        for ((child, worker), config) in (0..).zip(&mut workers).zip(&configs) {
            let Packet { hops, from, to, .. } = Packet::gradient(config);
            let node = hops[0].node;
            let hop = Hop { node, egress_port: 0, aggregate: true, child, fan_in: configs.len() as u8 };
            while let Some(slice) = worker.poll_transmit(Time::ZERO) {
                if slice.header.rank.get() == of {
                    let values = Some(*slice.values);
                    frames
                        .push(Packet { header: slice.header, hops: hops.clone(), values, from, to }.bytes());
                }
                values::write(slice.values, &mut bytes);
                server.handle_gradient(Time::ZERO, &slice.header, &hop, Some(ValuesView::new(&bytes)));
            }
        }
        while let Some(result) = server.poll_transmit() {
            values::write(result.values, &mut bytes);
            for worker in &mut workers {
                worker.handle_result(Time::ZERO, &result.header, ValuesView::new(&bytes));
            }
        }
    }
    frames
}

fn worker(config: &JobConfig, values_of: impl Fn(u16) -> Vec<i32>) -> Worker {
    let Role::Worker { rank, secret, confidential, .. } = &config.role else { panic!("not a worker's") };
    let worker = WorkerConfig {
        job: config.job,
        rank: *rank,
        members: config.ranks.clone(),
        secret: secret.clone(),
        confidential: *confidential,
        window: config.window,
        start: config.start_seq,
        begun: config.begun,
        timers: Timers::default(),
    };
    let mut worker = Worker::new(worker).unwrap();
    let data = GradientData::I32(values_of(rank.get()));
    worker.start_all_reduce(AllReduce { name: "gradient".into(), data, weight: 1 }).unwrap();
    worker
}

fn server(config: &JobConfig) -> Server {
    let server = ServerConfig {
        job: config.job,
        members: config.ranks.clone(),
        window: config.window,
        start: config.start_seq,
        fan_in: config.ranks.len() as u8,
        downlink: Downlink::Multicast,
        reads: None,
    };
    Server::new(server).unwrap()
}
