//! A job of one member, whose results are its own slices with the server's voucher.

use std::time::Duration;

use tributary_protocol::{
    AllReduce, Downlink, FinishedSlice, GradientData, Server, ServerConfig, Stripe, Time, Timers, Worker,
    WorkerConfig, vouching_key,
};
use tributary_wire::{
    Header, Hop, JobId, JobSecret, Kind, NodeId, Rank, Seq, SliceWidth, ValuesView, values,
};

pub(crate) const ME: Rank = Rank::new(3);

pub(crate) fn job(id: u16) -> JobId {
    JobId::new(id).unwrap()
}

pub(crate) fn config(window: u32) -> WorkerConfig {
    WorkerConfig {
        job: job(5),
        rank: ME,
        members: vec![ME],
        secret: JobSecret::new([1; JobSecret::BYTES]),
        confidential: false,
        width: SliceWidth::ETHERNET,
        stripe: Stripe::WHOLE,
        window,
        start: Seq::FIRST,
        begun: 0,
        timers: Timers::default(),
    }
}

pub(crate) fn integers(slices: usize) -> AllReduce {
    let data = GradientData::I32((0..(slices * SliceWidth::ETHERNET.values()) as i32).collect());
    AllReduce { name: "counts".to_owned(), data, weight: 1 }
}

pub(crate) type Slice = (Header, Vec<i32>);

pub(crate) fn sent(worker: &mut Worker, now: Time) -> Vec<Slice> {
    std::iter::from_fn(|| worker.poll_transmit(now).map(|out| (out.header, out.values.unwrap().to_vec())))
        .collect()
}

pub(crate) fn seqs(slices: &[Slice]) -> Vec<u32> {
    slices.iter().map(|(header, _)| header.seq.0).collect()
}

/// Answers a slice with the slice itself: the worker is the only member, so this is the sum.
pub(crate) fn answer(worker: &mut Worker, now: Time, slice: &Slice) {
    give(worker, now, &served(slice, slice.0.job));
}

/// Returns the packet that the server sends in generation `present` for this slice.
/// The server finished the slice in the slice's own generation.
pub(crate) fn served((header, values): &Slice, present: JobId) -> Slice {
    let hop = Hop { node: NodeId::new(9).unwrap(), egress_port: 0, aggregate: true, child: 0, fan_in: 1 };
    let WorkerConfig { members, secret, width, start, .. } = config(1);
    let config = ServerConfig {
        job: present,
        members,
        width,
        stripe: Stripe::WHOLE,
        window: 1,
        start,
        fan_in: hop.fan_in,
        downlink: Downlink::Unicast,
        vouching_key: vouching_key(&secret),
        reads: None,
        confidential: false,
    };
    let Header { seq, job, operator, totals, .. } = *header;
    let bytes = values::to_bytes(values);
    let finished = FinishedSlice { seq, job, operator, totals, values: bytes.clone().into() };
    let mut server = Server::take_over(config, &[seq.plus(1)], &[finished]).unwrap();
    let again = Header { job: present, retransmit: true, ..*header };
    server.handle_gradient(Time::ZERO + Duration::from_secs(1), &again, &hop, Some(ValuesView::new(&bytes)));
    let out = server.poll_transmit().unwrap();
    (out.header, out.values.unwrap().to_vec())
}

/// Passes a result to the worker, from any source.
pub(crate) fn give(worker: &mut Worker, now: Time, (header, values): &Slice) {
    let header = Header { kind: Kind::Result, ..*header };
    worker.handle_result(now, &header, Some(ValuesView::new(&values::to_bytes(values))));
}
