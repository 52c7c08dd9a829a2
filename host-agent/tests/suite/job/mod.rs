//! The configurations of a job in each of its generations. The members send frames directly to each
//! other's addresses, without a switch.

use std::net::Ipv4Addr;
use std::time::Duration;

use tributary_api::{DownPath, Downlink, Endpoint, JobConfig, ProcessCounts, Role, TakeOver};
use tributary_protocol::vouching_key;
use tributary_wire::{Hop, JobId, JobSecret, MacAddr, NodeId, Rank, Seq, SliceWidth};

pub(crate) const WINDOW: u32 = 64;
const SERVER_NODE: u16 = 99;
/// The last byte of the first server's addresses. The second server's number is one higher.
pub(crate) const SERVER_NUMBER: u8 = 200;

/// Returns the addresses of a host. A worker's number is its rank.
pub(crate) fn host(number: u8) -> Endpoint {
    Endpoint { mac: MacAddr::new(2, 0, 0, 0, 1, number), ip: Ipv4Addr::new(10, 0, 1, number) }
}

/// The structure of the job in one generation.
#[derive(Clone)]
pub(crate) struct Structure {
    pub(crate) generation: u32,
    pub(crate) ranks: Vec<u8>,
    pub(crate) joined: Vec<u8>,
    /// The reason for the generation, as text for users.
    pub(crate) reason: &'static str,
    /// The server of the generation, counted from 0.
    pub(crate) server: u8,
    pub(crate) downlink: Downlink,
    pub(crate) start_seqs: Vec<Seq>,
    pub(crate) begun: u64,
}

impl Structure {
    /// Returns the structure of the first generation.
    pub(crate) fn first(workers: u8, downlink: Downlink) -> Self {
        Self {
            generation: 1,
            ranks: (0..workers).collect(),
            joined: Vec::new(),
            reason: "",
            server: 0,
            downlink,
            start_seqs: vec![Seq::FIRST],
            begun: 0,
        }
    }

    /// Returns the structure of the next generation, which differs only in its number.
    pub(crate) fn next(&self) -> Self {
        Self { generation: self.generation + 1, joined: Vec::new(), reason: "", ..self.clone() }
    }

    fn member(&self, number: u8, role: Role) -> JobConfig {
        let ranks = |numbers: &[u8]| numbers.iter().map(|rank| Rank::new((*rank).into())).collect();
        // Each generation has its own multicast address, as with the real controller.
        let group = u8::try_from(self.generation).unwrap() + 6;
        JobConfig {
            name: "star".into(),
            job: JobId::new(group.into()).unwrap(),
            width: SliceWidth::ETHERNET,
            window: WINDOW,
            generation: self.generation,
            begun: self.begun,
            joined: ranks(&self.joined),
            regroup: !self.joined.is_empty(),
            adopted: Vec::new(),
            processes: ProcessCounts::default(),
            reason: self.reason.into(),
            start_seqs: self.start_seqs.clone(),
            downlink: self.downlink,
            slice_time: Duration::ZERO,
            switches: 1,
            ranks: ranks(&self.ranks),
            own: host(number),
            server: host(SERVER_NUMBER + self.server),
            multicast: Endpoint {
                mac: MacAddr::new(1, 0, 0x5e, 0, 0, group),
                ip: Ipv4Addr::new(239, 0, 0, group),
            },
            role,
        }
    }

    fn fan_in(&self) -> u8 {
        u8::try_from(self.ranks.len()).unwrap()
    }

    fn node(&self) -> NodeId {
        NodeId::new(SERVER_NODE + u16::from(self.server)).unwrap()
    }

    /// Returns the configuration of a worker.
    pub(crate) fn worker(&self, rank: u8) -> JobConfig {
        let child = u8::try_from(self.ranks.iter().position(|other| *other == rank).unwrap()).unwrap();
        let hop = Hop { node: self.node(), egress_port: 0, aggregate: true, child, fan_in: self.fan_in() };
        self.member(
            rank,
            Role::Worker {
                rank: Rank::new(rank.into()),
                up: vec![hop],
                secret: secret(),
                confidential: true,
            },
        )
    }

    /// Returns the configuration of the server.
    pub(crate) fn server(&self) -> JobConfig {
        self.server_after(None)
    }

    /// Returns the configuration of a server that continues where another server stopped.
    pub(crate) fn server_after(&self, take_over: Option<TakeOver>) -> JobConfig {
        let path =
            |rank: &u8| DownPath { rank: Rank::new((*rank).into()), worker: host(*rank), hops: Vec::new() };
        let down = self.ranks.iter().map(path).collect();
        let role = Role::Server {
            node: self.node(),
            fan_in: self.fan_in(),
            down,
            take_over,
            vouching_key: vouching_key(&secret()),
            secret: Some(secret()),
            confidential: true,
        };
        self.member(SERVER_NUMBER + self.server, role)
    }
}

fn secret() -> JobSecret {
    JobSecret::new([1; JobSecret::BYTES])
}

/// Returns the first configurations of all workers, and of the server.
pub(crate) fn configs(workers: u8, downlink: Downlink) -> (Vec<JobConfig>, JobConfig) {
    let first = Structure::first(workers, downlink);
    ((0..workers).map(|rank| first.worker(rank)).collect(), first.server())
}
