//! Gradients that a server takes for the sum of its workers' ones.

use tributary_api::{JobConfig, Role};
use tributary_protocol::{
    AllReduce, Downlink, GradientData, Server, ServerConfig, Time, Timers, Worker, WorkerConfig,
};
use tributary_wire::constants::VALUES_BYTES;
use tributary_wire::frame::{self, FrameHeader};
use tributary_wire::{Header, Hop, JobSecret, Kind, MacAddr, Message, Rank, ValuesView, values};

/// What the server's last switch would send it for the job's first all-reduce if the workers had these values, by
/// rank: nothing is wrong but the numbers, and the secret that their tags are made from: it has not got that. `job` is what the server was told.
///
/// The forger plays it through with workers and a server of its own, whose results it sends as gradients.
pub(crate) fn gradients(job: &JobConfig, values_of: impl Fn(u16) -> Vec<i32>) -> Vec<Vec<u8>> {
    let Role::Server { node, fan_in, .. } = job.role else { panic!("not what a server was told") };
    assert_eq!(fan_in, 1, "one child would not be all of them");
    let hop = |child, fan_in| Hop { node, egress_port: 0, aggregate: true, child, fan_in };
    let mut server = server(job);
    let mut workers: Vec<_> =
        job.ranks.iter().map(|rank| worker(job, *rank, values_of(rank.get()))).collect();
    let (mut frames, mut bytes) = (Vec::new(), [0; VALUES_BYTES]);
    while workers.iter_mut().all(|worker| worker.poll_event().is_none()) {
        for (worker, child) in workers.iter_mut().zip(0..) {
            let hop = hop(child, job.ranks.len() as u8);
            while let Some(slice) = worker.poll_transmit(Time::ZERO) {
                values::write(slice.values, &mut bytes);
                server.handle_gradient(Time::ZERO, &slice.header, &hop, Some(ValuesView::new(&bytes)));
            }
        }
        while let Some(result) = server.poll_transmit() {
            let header = Header { kind: Kind::Gradient, ..result.header };
            let message = Message { header, hops: &[hop(0, fan_in)], values: Some(result.values) };
            frames.push(to_server(job, &message));
            values::write(result.values, &mut bytes);
            for worker in &mut workers {
                worker.handle_result(Time::ZERO, &result.header, ValuesView::new(&bytes));
            }
        }
    }
    frames
}

fn server(job: &JobConfig) -> Server {
    let config = ServerConfig {
        job: job.job,
        members: job.ranks.clone(),
        window: job.window,
        start: job.start_seq,
        fan_in: job.ranks.len() as u8,
        downlink: Downlink::Multicast,
        reads: None,
    };
    Server::new(config).unwrap()
}

/// A worker with the all-reduce under way.
fn worker(job: &JobConfig, rank: Rank, values: Vec<i32>) -> Worker {
    let config = WorkerConfig {
        job: job.job,
        rank,
        members: job.ranks.clone(),
        secret: JobSecret::new([0; JobSecret::BYTES]),
        confidential: false,
        window: job.window,
        start: job.start_seq,
        begun: job.begun,
        timers: Timers::default(),
    };
    let mut worker = Worker::new(config).unwrap();
    let operation = AllReduce { name: "forged".into(), data: GradientData::I32(values), weight: 1 };
    worker.start_all_reduce(operation).unwrap();
    worker
}

fn to_server(job: &JobConfig, message: &Message<'_>) -> Vec<u8> {
    let header = FrameHeader {
        source_mac: MacAddr::new(2, 0xba, 0xd0, 0, 0, 1),
        destination_mac: job.own.mac,
        source_ip: [10, 66, 66, 66].into(),
        destination_ip: job.own.ip,
    };
    let mut frame = vec![0; frame::frame_len(message)];
    frame::emit(&header, message, &mut frame).unwrap();
    frame
}
