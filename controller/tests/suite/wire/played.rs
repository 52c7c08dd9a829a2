//! Runs a job's first all-reduce with its own workers and server.
//! Tests use it to record or forge the frames of the all-reduce.

use tributary_api::JobConfig;
use tributary_protocol::{
    AllReduce, Downlink, GradientData, Server, ServerConfig, Stripe, Time, Timers, Worker, WorkerConfig,
    vouching_key,
};
use tributary_wire::{Header, Hop, JobSecret, Kind, NodeId, Rank, ValuesView, values};

/// Runs the all-reduce, and passes every gradient and result that is sent to `see`, in order.
/// `values_of` returns a worker's values by rank. The tags are derived from `secret`. `job` is the configuration of any
/// member.
pub(crate) fn play(
    job: &JobConfig,
    secret: &JobSecret,
    name: &str,
    values_of: impl Fn(u16) -> Vec<i32>,
    mut see: impl FnMut(Header, &[i32]),
) {
    let start = |rank: &Rank| {
        let mut worker = worker(job, *rank, secret.clone());
        let data = GradientData::I32(values_of(rank.get()));
        worker.start_all_reduce(AllReduce { name: name.into(), data, weight: 1 }).unwrap();
        worker
    };
    let mut workers: Vec<_> = job.ranks.iter().map(start).collect();
    let (mut server, fan_in, mut bytes) =
        (server(job, secret), job.ranks.len() as u8, vec![0; job.width.bytes()]);
    let node = NodeId::new(1).unwrap();
    while workers.iter_mut().all(|worker| worker.poll_event().is_none()) {
        for (worker, child) in workers.iter_mut().zip(0..) {
            let hop = Hop { node, egress_port: 0, aggregate: true, child, fan_in };
            while let Some(slice) = worker.poll_transmit(Time::ZERO) {
                assert_eq!(slice.header.kind, Kind::Gradient);
                let carried = slice.values.unwrap();
                see(slice.header, carried);
                values::write(carried, &mut bytes);
                server.handle_gradient(Time::ZERO, &slice.header, &hop, Some(ValuesView::new(&bytes)));
            }
        }
        while let Some(result) = server.poll_transmit() {
            assert_eq!(result.header.kind, Kind::Result);
            let carried = result.values.unwrap();
            see(result.header, carried);
            values::write(carried, &mut bytes);
            for worker in &mut workers {
                worker.handle_result(Time::ZERO, &result.header, Some(ValuesView::new(&bytes)));
            }
        }
    }
}

fn server(job: &JobConfig, secret: &JobSecret) -> Server {
    let config = ServerConfig {
        stripe: Stripe::WHOLE,
        job: job.job,
        members: job.ranks.clone(),
        width: job.width,
        window: job.window,
        start: job.start_seqs[0],
        fan_in: job.ranks.len() as u8,
        downlink: Downlink::Multicast,
        vouching_key: vouching_key(secret),
        reads: None,
        confidential: false,
    };
    Server::new(config).unwrap()
}

fn worker(job: &JobConfig, rank: Rank, secret: JobSecret) -> Worker {
    let config = WorkerConfig {
        stripe: Stripe::WHOLE,
        job: job.job,
        rank,
        members: job.ranks.clone(),
        secret,
        confidential: false,
        width: job.width,
        window: job.window,
        start: job.start_seqs[0],
        begun: job.begun,
        timers: Timers::default(),
    };
    Worker::new(config).unwrap()
}
