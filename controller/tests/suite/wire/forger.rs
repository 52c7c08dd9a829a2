//! Forged gradients that a server would accept as the sum of its workers' gradients.

use tributary_api::{Endpoint, JobConfig, Role};
use tributary_wire::frame::{self, FrameHeader};
use tributary_wire::{Header, Hop, JobSecret, Kind, MacAddr, Message};

use crate::wire::played::play;

/// Returns the forger's own addresses.
pub(crate) fn own() -> Endpoint {
    Endpoint { mac: MacAddr::new(2, 0xba, 0xd0, 0, 0, 1), ip: [10, 66, 66, 66].into() }
}

/// Forges the packets that the server's last switch sends in the job's first all-reduce.
///
/// `values_of` returns a worker's values by rank. The packets are wrong only in their numbers and in the secret of
/// their tags, because the forger does not have the job's secret. `job` is the server's configuration, and `from` is
/// the sender's addresses.
///
/// The forger runs the all-reduce with its own workers and server, and sends the results as gradients.
pub(crate) fn gradients(
    job: &JobConfig,
    from: Endpoint,
    values_of: impl Fn(u16) -> Vec<i32>,
) -> Vec<Vec<u8>> {
    let Role::Server { node, fan_in, .. } = job.role else { panic!("not what a server was told") };
    assert_eq!(fan_in, 1, "one child would not be all of them");
    let hop = Hop { node, egress_port: 0, aggregate: true, child: 0, fan_in };
    let (secret, mut frames) = (JobSecret::new([0; JobSecret::BYTES]), Vec::new());
    play(job, &secret, "forged", values_of, |header, values| {
        if header.kind == Kind::Result {
            let header = Header { kind: Kind::Gradient, rank: job.ranks[0], ..header };
            frames.push(to_server(job, from, &Message { header, hops: &[hop], values: Some(values) }));
        }
    });
    frames
}

fn to_server(job: &JobConfig, from: Endpoint, message: &Message<'_>) -> Vec<u8> {
    let header = FrameHeader {
        source_mac: from.mac,
        destination_mac: job.own.mac,
        source_ip: from.ip,
        destination_ip: job.own.ip,
    };
    let mut frame = vec![0; frame::frame_len(message)];
    frame::emit(&header, message, &mut frame).unwrap();
    frame
}
