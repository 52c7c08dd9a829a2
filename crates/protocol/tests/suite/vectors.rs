//! Workers and a server send the packets of the files under `vectors`, and obtain the sums.
//!
//! `make vectors` sets `TRIBUTARY_REGENERATE=1`: the test then writes the packets and sums of each file again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use std::{env, fs, mem};

use tributary_protocol::{
    AllReduce, Downlink, OperationEvent, Server, ServerConfig, Stripe, Time, Timers, Worker, WorkerConfig,
    vouching_key,
};
use tributary_wire::{
    Header, Hop, JobId, JobSecret, NodeId, Operator, Rank, Seq, SliceWidth, ValuesView, values,
};

use crate::format::{Operation, Packet, Step, Vector, elements, sums};

/// The environment variable with which the test writes the files instead of comparing them.
const REGENERATE: &str = "TRIBUTARY_REGENERATE";
/// The time between two slices. After it, no answer counts as on its way.
const STEP: Duration = Duration::from_millis(10);

type Slice = (Header, Vec<i32>);

/// A job whose packets pass one switch.
struct Job<'a> {
    vector: &'a Vector,
    members: Vec<u16>,
    workers: BTreeMap<u16, Worker>,
    server: Server,
    /// The GRADIENT packets of slices that are not summed yet.
    open: BTreeMap<u32, Vec<Slice>>,
    now: Time,
    steps: Vec<Step>,
}

fn ranks(members: &[u16]) -> Vec<Rank> {
    members.iter().copied().map(Rank::new).collect()
}

impl<'a> Job<'a> {
    fn new(vector: &'a Vector) -> Self {
        let secret = JobSecret::new(hex::decode(&vector.secret).unwrap().try_into().unwrap());
        let (job, width) = (JobId::new(vector.job).unwrap(), SliceWidth::from_values(vector.width).unwrap());
        let (window, start, confidential) = (vector.window, Seq(vector.start), vector.confidential);
        let server = ServerConfig {
            job,
            members: ranks(&vector.members),
            width,
            stripe: Stripe::WHOLE,
            window,
            start,
            fan_in: 1,
            downlink: Downlink::Multicast,
            vouching_key: vouching_key(&secret),
            reads: None,
            confidential,
        };
        let worker = |&rank: &u16| {
            let config = WorkerConfig {
                job,
                rank: Rank::new(rank),
                members: ranks(&vector.members),
                secret: secret.clone(),
                confidential,
                width,
                stripe: Stripe::WHOLE,
                window,
                start,
                begun: vector.begun,
                timers: Timers::default(),
            };
            (rank, Worker::new(config).unwrap())
        };
        let mut workers: BTreeMap<_, _> = vector.members.iter().map(worker).collect();
        for operation in &vector.operations {
            for part in &operation.contributions {
                let data = elements(&operation.element_type, &part.elements);
                assert_eq!(data.len(), operation.length);
                let all_reduce = AllReduce { name: operation.name.clone(), data, weight: part.weight };
                workers.get_mut(&part.rank).unwrap().start_all_reduce(all_reduce).unwrap();
            }
        }
        let (server, members) = (Server::new(server).unwrap(), vector.members.clone());
        Self { vector, members, workers, server, open: BTreeMap::new(), now: Time::ZERO, steps: Vec::new() }
    }

    /// Returns the hop stack of a member; of the switch if `rank` is `None`.
    fn hops(&self, rank: Option<u16>) -> Vec<Hop> {
        let (tree, fan_in) = (&self.vector.tree, self.members.len() as u8);
        let (switch, server) = (NodeId::new(tree.switch).unwrap(), NodeId::new(tree.server).unwrap());
        let server = Hop { node: server, egress_port: 0, aggregate: true, child: 0, fan_in: 1 };
        let Some(rank) = rank else { return vec![server] };
        let child = self.members.iter().position(|member| *member == rank).unwrap() as u8;
        vec![Hop { node: switch, egress_port: tree.egress_port, aggregate: true, child, fan_in }, server]
    }

    /// Makes a worker send its next slice, if it has one to send.
    fn send(&mut self, rank: u16) -> Option<u32> {
        let out = self.workers.get_mut(&rank).unwrap().poll_transmit(self.now)?;
        let (header, values) = (out.header, out.values.unwrap().to_vec());
        let packet = Packet::new(&header, &self.hops(Some(rank)), Some(&values));
        self.open.entry(header.seq.0).or_default().push((header, values));
        self.steps.push(Step::Gradient { rank, seq: header.seq.0, packet });
        Some(header.seq.0)
    }

    /// Forwards the last GRADIENT as a PROBE.
    fn probe(&mut self, rank: u16, seq: u32) {
        let (header, _) = self.open.get_mut(&seq).unwrap().pop().unwrap();
        let header = Header { totals: Default::default(), ..header };
        let hops = self.hops(None);
        self.steps.push(Step::Probe { rank, seq, packet: Packet::new(&header, &hops, None) });
        self.server.handle_gradient(self.now, &header, &hops[0], None);
    }

    /// Adds the GRADIENT packets of all members, and passes the sum to the server.
    fn sum(&mut self, seq: u32) {
        let mut slices = self.open.remove(&seq).unwrap();
        assert_eq!(slices.len(), self.members.len());
        let (mut header, mut total) = slices.pop().unwrap();
        for (other, values) in slices {
            header.totals.add(other.totals);
            for (total, value) in total.iter_mut().zip(values) {
                *total = match header.operator {
                    Operator::Sum => total.wrapping_add(value),
                    Operator::Max => (*total).max(value),
                    Operator::Relay => unreachable!("the vectors have no broadcast"),
                };
            }
        }
        self.now = self.now + STEP;
        let hops = self.hops(None);
        let bytes = values::to_bytes(&total);
        self.server.handle_gradient(self.now, &header, &hops[0], Some(ValuesView::new(&bytes)));
        self.steps.push(Step::Sum { seq, packet: Packet::new(&header, &hops, Some(&total)) });
    }

    /// Makes the server send its next result, which the members in `to` receive.
    fn result(&mut self, to: Option<Vec<u16>>) {
        let out = self.server.poll_transmit().expect("a result");
        let values = out.values.expect("the vectors have no reduce-scatter");
        let (header, bytes) = (out.header, values::to_bytes(values));
        let packet = Packet::new(&header, &[], Some(values));
        for rank in to.as_ref().unwrap_or(&self.members) {
            let worker = self.workers.get_mut(rank).unwrap();
            let before = worker.stats();
            worker.handle_result(self.now, &header, Some(ValuesView::new(&bytes)));
            assert_eq!(worker.stats().mismatched, before.mismatched, "slice {} at rank {rank}", header.seq);
        }
        self.steps.push(Step::Result { seq: header.seq.0, to, packet });
    }

    fn change(&mut self, job: u16, members: Vec<u16>) {
        let (id, remaining) = (JobId::new(job).unwrap(), ranks(&members));
        self.server.change_generation(id, &remaining, 1).unwrap();
        self.workers.retain(|rank, _| members.contains(rank));
        for worker in self.workers.values_mut() {
            worker.change_generation(self.now, id, &remaining).unwrap();
        }
        self.open.clear();
        self.members.clone_from(&members);
        self.steps.push(Step::Generation { job, members });
    }

    /// Executes a step of a file.
    fn take(&mut self, step: &Step) {
        match step {
            Step::Gradient { rank, .. } => drop(self.send(*rank).expect("a slice to send")),
            Step::Probe { rank, seq, .. } => self.probe(*rank, *seq),
            Step::Sum { seq, .. } => self.sum(*seq),
            Step::Result { to, .. } => self.result(to.clone()),
            Step::Generation { job, members } => self.change(*job, members.clone()),
        }
    }

    /// Executes the steps of a job without losses.
    fn take_all(&mut self) {
        loop {
            let seqs: Vec<_> = self.members.clone().into_iter().filter_map(|rank| self.send(rank)).collect();
            let Some(&seq) = seqs.first() else { break };
            self.sum(seq);
            self.result(None);
        }
    }

    /// Returns the vector with the packets and the sums of this run.
    fn finish(mut self) -> Vector {
        let mut operations = self.vector.operations.clone();
        for (rank, worker) in &mut self.workers {
            assert!(worker.poll_transmit(self.now).is_none(), "rank {rank} has more to send");
            for operation in &mut operations {
                let Some(OperationEvent::Completed { reduced, .. }) = worker.poll_event() else {
                    panic!("rank {rank} has no sums of {}", operation.name)
                };
                let sums = sums(&reduced.sums);
                let others = mem::replace(&mut operation.sums, sums.clone());
                assert!(*rank == self.members[0] || others == sums, "rank {rank} has other sums");
            }
            assert!(worker.is_idle() && worker.poll_event().is_none());
        }
        assert!(self.server.poll_transmit().is_none());
        Vector { operations, steps: self.steps, ..self.vector.clone() }
    }
}

/// Runs the job of a vector. A vector without steps has no losses.
fn run(vector: &Vector) -> Vector {
    let mut job = Job::new(vector);
    vector.steps.iter().for_each(|step| job.take(step));
    if vector.steps.is_empty() {
        job.take_all();
    }
    job.finish()
}

/// Panics with the first step or operation that differs.
fn compare(name: &str, expected: &Vector, got: &Vector) {
    for (at, (expected, got)) in expected.steps.iter().zip(&got.steps).enumerate() {
        assert_eq!(got, expected, "step {at} of {name}");
    }
    let by_name = |operation: &Operation| (operation.name.clone(), operation.sums.clone());
    let operations = got.operations.iter().map(by_name).zip(expected.operations.iter().map(by_name));
    operations.for_each(|(got, expected)| assert_eq!(got, expected, "sums of {name}"));
    assert_eq!(got, expected, "{name}");
}

#[test]
fn workers_and_servers_send_the_packets_of_the_vectors() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    assert!(!paths.is_empty());
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy();
        let text = fs::read_to_string(&path).unwrap();
        let expected: Vector = serde_json::from_str(&text).expect(&name);
        let got = run(&expected);
        if env::var_os(REGENERATE).is_some() {
            fs::write(&path, got.to_json()).unwrap();
        } else {
            compare(&name, &expected, &got);
            assert!(text == got.to_json(), "{name} is laid out in another way: run `make vectors`");
        }
    }
}
