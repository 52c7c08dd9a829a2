//! Messages between the controller and a job's member, which define the structure of sums.
//!
//! The target checks these properties: an accepted configuration does not change in a round trip over the
//! wire; a worker or a server can be made from it, or refuses it with a reason, with memory in proportion to
//! the message; and a name of shared memory stays in its folder.

use std::path::Path;
use std::time::Duration;

use prost::Message;
use tributary_api::agent::SegmentName;
use tributary_api::{
    DownPath, Downlink, Endpoint, FinishedSlice, JobConfig, ProcessCounts, Role, TakeOver, v1,
};
use tributary_protocol as protocol;
use tributary_wire::{JobSecret, Operator, Rank, Seq, SliceWidth, Totals};

use crate::bounded::within;
use crate::finding::sound;
use crate::packets::{ADDRESSES, header, hop, values};
use crate::{Seed, Target};

/// Memory for each slot of the window, and memory for the job.
const SLOT: usize = 4 << 10;
const LITTLE: usize = 64 << 10;
/// The largest window that is tried. A larger window would only take more time.
const WIDE: u32 = 1 << 12;

pub(super) const TARGET: Target = Target {
    name: "jobs",
    about: "configurations of a job's members (protobuf), and names of shared memory",
    max_len: 8192,
    tries: 3000,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    if let Ok(message) = v1::JobConfig::decode(bytes) {
        let most = 8 * bytes.len() + LITTLE;
        match within(most, "a configuration", || JobConfig::try_from(message)) {
            Ok(config) => taken(config),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Ok(message) = v1::FinishedSlice::decode(bytes)
        && let Ok(slice) = FinishedSlice::try_from(&message)
    {
        assert_eq!(FinishedSlice::try_from(&v1::FinishedSlice::from(&slice)), Ok(slice));
    }
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(name) = text.parse::<SegmentName>()
    {
        assert_eq!(name.path().parent(), Some(Path::new(SegmentName::FOLDER)));
        assert_eq!(name.to_string(), text);
    }
}

fn taken(config: JobConfig) {
    let sent = v1::JobConfig::from(&config).encode_to_vec();
    let again = sound(v1::JobConfig::decode(&*sent));
    assert_eq!(sound(JobConfig::try_from(again)), config);
    if config.window <= WIDE || config.window > protocol::MAX_WINDOW {
        let room = config.window.min(WIDE) as usize * SLOT + 64 * sent.len() + LITTLE;
        within(room, "a member", || member(config));
    }
}

/// Makes the first stripe of a member from its configuration, as an agent does.
fn member(config: JobConfig) {
    let stripes = protocol::Stripe::all(config.start_seqs.len() as u32, config.window);
    let first = stripes.ok().and_then(|mut stripes| stripes.next()).zip(config.start_seqs.first().copied());
    let Some((stripe, start)) = first else { return };
    let JobConfig { job, width, window, begun, ranks: members, .. } = config;
    match config.role {
        Role::Worker { rank, secret, confidential, .. } => {
            let timers = protocol::Timers::default();
            let config = protocol::WorkerConfig {
                stripe,
                job,
                rank,
                members,
                secret,
                confidential,
                width,
                window,
                start,
                begun,
                timers,
            };
            let worker = protocol::Worker::new(config);
            assert!(worker.is_err() || window <= protocol::MAX_WINDOW);
        }
        Role::Server { fan_in, take_over, vouching_key, secret: reads, confidential, .. } => {
            let config = protocol::ServerConfig {
                stripe,
                job,
                members,
                width,
                window,
                start,
                fan_in,
                downlink: Downlink::Unicast,
                vouching_key,
                reads,
                confidential,
            };
            let server = match take_over {
                None => protocol::Server::new(config),
                Some(TakeOver { dues, finished }) => {
                    let slice = |FinishedSlice { seq, job, operator, totals, values }| {
                        let values = tributary_wire::values::to_bytes(&values).into();
                        protocol::FinishedSlice { seq, job, operator, totals, values }
                    };
                    let finished: Vec<_> = finished.into_iter().map(slice).collect();
                    protocol::Server::take_over(config, &dues, &finished)
                }
            };
            assert!(server.is_err() || window <= protocol::MAX_WINDOW);
        }
    }
}

fn seeds() -> Vec<Seed> {
    let own = Endpoint { mac: ADDRESSES.source_mac, ip: ADDRESSES.source_ip };
    let server = Endpoint { mac: ADDRESSES.destination_mac, ip: ADDRESSES.destination_ip };
    let multicast = Endpoint { mac: [1, 0, 0x5e, 0, 0, 7].into(), ip: [239, 0, 0, 7].into() };
    let secret = JobSecret::new([7; JobSecret::BYTES]);
    let worker = JobConfig {
        name: "job".to_owned(),
        job: header(tributary_wire::Kind::Gradient, 9, 0, 0).job,
        width: SliceWidth::ETHERNET,
        window: 4,
        generation: 2,
        start_seqs: vec![Seq(17)],
        begun: 1,
        downlink: Downlink::Multicast,
        slice_time: Duration::ZERO,
        switches: 3,
        ranks: vec![Rank::new(0), Rank::new(3)],
        joined: vec![Rank::new(3)],
        regroup: true,
        adopted: vec![Rank::new(1)],
        processes: ProcessCounts::default(),
        reason: "w1 is gone".into(),
        own,
        server,
        multicast,
        role: Role::Worker {
            rank: Rank::new(3),
            up: vec![hop(7, 9, 1, 2), hop(1001, 0, 0, 1)],
            secret: secret.clone(),
            confidential: true,
        },
    };
    let down = |rank| DownPath { rank: Rank::new(rank), worker: own, hops: vec![hop(7, 1, 0, 0)] };
    let finished = FinishedSlice {
        seq: Seq(13),
        job: worker.job,
        operator: Operator::Max,
        totals: Totals::default(),
        values: values(1).into(),
    };
    let take_over = TakeOver { dues: [16, 17, 18, 15].map(Seq).to_vec(), finished: vec![finished.clone()] };
    let role = Role::Server {
        node: hop(1001, 0, 0, 1).node,
        fan_in: 1,
        down: vec![down(0), down(3)],
        take_over: None,
        vouching_key: protocol::vouching_key(&secret),
        secret: Some(secret),
        confidential: true,
    };
    let reader = JobConfig { role, ..worker.clone() };
    let mut successor = reader.clone();
    if let Role::Server { take_over: its, secret, .. } = &mut successor.role {
        (*its, *secret) = (Some(take_over), None);
    }
    let bytes = |config: &JobConfig| v1::JobConfig::from(config).encode_to_vec();
    vec![
        ("worker".to_owned(), bytes(&worker)),
        ("server-that-reads".to_owned(), bytes(&reader)),
        ("server-that-takes-over".to_owned(), bytes(&successor)),
        ("finished-slice".to_owned(), v1::FinishedSlice::from(&finished).encode_to_vec()),
        ("segment".to_owned(), SegmentName::new(0x0123_4567_89ab_cdef).to_string().into_bytes()),
    ]
}
