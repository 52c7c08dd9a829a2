//! Frames of a job, either sent by its members or forged.
//! A forger knows everything except the job's secret.

use tributary_api::{Endpoint, JobConfig, Role};
use tributary_wire::frame::{self, FrameHeader};
use tributary_wire::{Header, Hop, Kind, Message, Operator, Seq, Tag, Totals};

use crate::wire::played::play;

/// A packet that a test can change before it sends it.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    pub(crate) hops: Vec<Hop>,
    /// The values of the slice; `None` in a PROBE.
    pub(crate) values: Option<Vec<i32>>,
    from: Endpoint,
    to: Endpoint,
}

impl Packet {
    /// Returns a worker's next gradient, with a wrong tag.
    pub(crate) fn gradient(worker: &JobConfig) -> Self {
        let Role::Worker { rank, up, .. } = &worker.role else { panic!("not what a worker was told") };
        let header = Header {
            kind: Kind::Gradient,
            operator: Operator::Sum,
            retransmit: false,
            job: worker.job,
            rank: *rank,
            seq: worker.start_seqs[0],
            totals: Totals { contributors: 1, weight: 1, tag: Tag { high: 5, low: 6 } },
        };
        let values = Some(vec![1_000_000; worker.width.values()]);
        Self { header, hops: up.clone(), values, from: worker.own, to: worker.server }
    }

    /// Returns a forged result for all workers.
    pub(crate) fn result(worker: &JobConfig, seq: Seq) -> Self {
        let gradient = Self::gradient(worker);
        let totals =
            Totals { contributors: worker.ranks.len() as u32, weight: 2, tag: Tag { high: 5, low: 6 } };
        let header = Header { kind: Kind::Result, seq, totals, ..gradient.header };
        Self { header, hops: Vec::new(), from: worker.server, to: worker.multicast, ..gradient }
    }

    pub(crate) fn probe(worker: &JobConfig) -> Self {
        Self { values: None, ..Self::gradient(worker) }
    }

    /// Returns a forged result for one worker, on the path that the server would use.
    pub(crate) fn result_to(worker: &JobConfig, down: &[Hop], seq: Seq) -> Self {
        Self { hops: down.to_vec(), to: worker.own, ..Self::result(worker, seq) }
    }

    /// Replaces the sender's addresses.
    pub(crate) fn sent_by(mut self, from: Endpoint) -> Self {
        self.from = from;
        self
    }

    /// Changes the first hop.
    pub(crate) fn with_hop(mut self, change: impl FnOnce(&mut Hop)) -> Self {
        change(&mut self.hops[0]);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let message = Message { header: self.header, hops: &self.hops, values: self.values.as_deref() };
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

/// Returns a worker's frames of its job's first all-reduce, tagged with its secret.
///
/// An attacker could have recorded these frames.
pub(crate) fn recorded(worker: &JobConfig, values_of: impl Fn(u16) -> Vec<i32>) -> Vec<Vec<u8>> {
    let Role::Worker { rank, secret, .. } = &worker.role else { panic!("not what a worker was told") };
    let (packet, mut frames) = (Packet::gradient(worker), Vec::new());
    play(worker, secret, "gradient", values_of, |header, values| {
        if header.kind == Kind::Gradient && header.rank == *rank {
            frames.push(Packet { header, values: Some(values.to_vec()), ..packet.clone() }.bytes());
        }
    });
    frames
}
