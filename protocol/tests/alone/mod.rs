//! A worker alone, against a server that is played by the test: a job of one member, whose results are
//! what it has sent.

use tributary_protocol::{AllReduce, GradientData, Time, Timers, Worker, WorkerConfig};
use tributary_wire::{Header, JobId, JobSecret, Kind, Rank, Seq, SliceWidth, ValuesView};

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
    std::iter::from_fn(|| worker.poll_transmit(now).map(|out| (out.header, out.values.to_vec()))).collect()
}

pub(crate) fn seqs(slices: &[Slice]) -> Vec<u32> {
    slices.iter().map(|(header, _)| header.seq.0).collect()
}

/// The result of a slice is the slice, since nobody else takes part.
pub(crate) fn answer(worker: &mut Worker, now: Time, (header, values): &Slice) {
    let mut bytes = [0; SliceWidth::ETHERNET.bytes()];
    for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
        *to = value.to_be_bytes();
    }
    let header = Header { kind: Kind::Result, ..*header };
    worker.handle_result(now, &header, ValuesView::new(&bytes));
}
