//! A job whose members know each other's addresses and have no switch between them.

use std::net::Ipv4Addr;

use tributary_api::{DownPath, Downlink, Endpoint, JobConfig, Role};
use tributary_wire::{Hop, JobId, MacAddr, NodeId, Rank, Seq};

const WINDOW: u32 = 64;
const SERVER_NODE: u16 = 99;
/// The last byte of the server's addresses.
pub(crate) const SERVER_NUMBER: u8 = 200;

/// The addresses of a host; workers' numbers are their ranks.
fn host(number: u8) -> Endpoint {
    Endpoint { mac: MacAddr::new(2, 0, 0, 0, 1, number), ip: Ipv4Addr::new(10, 0, 1, number) }
}

fn multicast() -> Endpoint {
    Endpoint { mac: MacAddr::new(1, 0, 0x5e, 0, 0, 7), ip: Ipv4Addr::new(239, 0, 0, 7) }
}

/// What each member of the job is told: the workers, then the server.
pub(crate) fn configs(workers: u8, downlink: Downlink) -> (Vec<JobConfig>, JobConfig) {
    let node = NodeId::new(SERVER_NODE).unwrap();
    let member = |number, role| JobConfig {
        name: "star".into(),
        job: JobId::new(7).unwrap(),
        window: WINDOW,
        generation: 1,
        begun: 0,
        joined: Vec::new(),
        start_seq: Seq::FIRST,
        downlink,
        ranks: (0..workers).map(|rank| Rank::new(rank.into())).collect(),
        own: host(number),
        server: host(SERVER_NUMBER),
        multicast: multicast(),
        role,
    };
    let worker = |rank: u8| {
        let up = vec![Hop { node, egress_port: 0, aggregate: true, child: rank, fan_in: workers }];
        member(rank, Role::Worker { rank: Rank::new(rank.into()), up })
    };
    let down = (0..workers)
        .map(|rank| DownPath { rank: Rank::new(rank.into()), worker: host(rank), hops: Vec::new() })
        .collect();
    let server = member(SERVER_NUMBER, Role::Server { node, fan_in: workers, down, take_over: None });
    ((0..workers).map(worker).collect(), server)
}
