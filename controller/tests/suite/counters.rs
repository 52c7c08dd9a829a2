//! Tests of the switches' counters that the API reports. A worker's frames go through a real switch.

use crate::common;
use std::collections::BTreeMap;

use crate::common::{Client, Member, create, end, job, join_all, refusal, shipped, start};
use crate::switches::{Ports, Switches, eventually};
use tonic::Code;
use tributary_api::{JobConfig, Role, v1};
use tributary_link::FramePort;
use tributary_link::in_process::{InProcessPort, LinkConfig, link};
use tributary_topology::Topology;
use tributary_wire::{FrameHeader, Header, Kind, Message, Operator, Rank, SliceWidth, Totals, frame};

/// A worker with its end of its link.
struct Worker {
    config: JobConfig,
    port: InProcessPort,
}

impl Worker {
    /// Sends the worker's gradient of the job's first slice.
    fn send_gradient(&mut self) {
        let Role::Worker { rank, up, .. } = &self.config.role else { panic!("{:?}", self.config) };
        let totals = Totals { contributors: 1, weight: 1, ..Totals::default() };
        self.send(
            *rank,
            &Message {
                header: Header {
                    kind: Kind::Gradient,
                    operator: Operator::Sum,
                    retransmit: false,
                    job: self.config.job,
                    rank: *rank,
                    seq: self.config.start_seqs[0],
                    totals,
                },
                hops: &up.clone(),
                values: Some(&[1; SliceWidth::ETHERNET.values()]),
            },
        );
    }

    fn send(&mut self, rank: Rank, message: &Message<'_>) {
        let header = FrameHeader {
            source_mac: self.config.own.mac,
            destination_mac: self.config.server.mac,
            source_ip: self.config.own.ip,
            destination_ip: self.config.server.ip,
        };
        let mut out = [0; 2048];
        let len = frame::emit(&header, message, &mut out).unwrap();
        self.port.send(&out[..len]).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
        self.port.flush().unwrap();
    }
}

/// Starts the switches of a topology with links to hosts. Returns them with the hosts' ends of the
/// links.
async fn linked(topology: &Topology) -> (Switches, BTreeMap<String, InProcessPort>) {
    let mut hosts = BTreeMap::new();
    let switches = Switches::start_with(topology, |name| {
        let key = topology.find(name).unwrap();
        let mut ports = Ports::new();
        for neighbour in topology.neighbours(key) {
            let config = LinkConfig { loss: 0.0, seed: 0, queue_frames: 64 };
            let (near, far, _) = link(&config).unwrap();
            ports.push((neighbour.port, Box::new(near)));
            hosts.insert(topology[neighbour.node].name.clone(), far);
        }
        ports
    })
    .await;
    (switches, hosts)
}

async fn index(client: &Client, job: &str) -> Option<u32> {
    let jobs = common::list(&mut client.clone()).await;
    jobs.iter().find(|one| one.name == job).map(|one| one.job_index)
}

async fn counters(client: &Client) -> v1::SwitchCounters {
    let request = v1::GetCountersRequest { switches: vec!["leaf".into()] };
    let mut switches = client.clone().get_counters(request).await.unwrap().into_inner().switches;
    assert_eq!((switches.len(), switches[0].name.as_str()), (1, "leaf"));
    switches.remove(0)
}

/// Returns the packets that a job's counter has counted; `None` if the API reports no such job or
/// reason.
async fn packets(client: &Client, job: &str, reason: &str) -> Option<u64> {
    let counters = counters(client).await.jobs;
    counters
        .iter()
        .find(|counter| counter.job == job && counter.reason == reason)
        .map(|counter| counter.packets)
}

async fn running(client: &mut Client, name: &str) -> (Vec<u8>, Vec<Member>, Vec<JobConfig>) {
    let (token, plan) = create(client, job(name)).await.unwrap();
    let mut members = join_all(client, name, &token, &plan).await;
    let mut configs = Vec::new();
    for member in &mut members {
        configs.push(member.started().await);
    }
    (token, members, configs)
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_are_counted_for_their_job_until_another_gets_its_index() {
    let topology = shipped("two-workers.toml");
    let (switches, mut hosts) = linked(&topology).await;
    let (_controller, mut client) = start(topology, switches.addresses()).await;
    let (token, _members, configs) = running(&mut client, "first").await;
    assert_eq!(packets(&client, "first", "received").await, Some(0));

    let mut worker = Worker { config: configs[0].clone(), port: hosts.remove("w0").unwrap() };
    worker.send_gradient();
    worker.send_gradient();
    eventually(async || packets(&client, "first", "received").await == Some(2)).await;
    assert_eq!(packets(&client, "first", "contributed").await, Some(1));
    assert_eq!(packets(&client, "first", "duplicate").await, Some(1));
    assert_eq!(packets(&client, "first", "completed").await, Some(0), "one of two workers");
    let ports = counters(&client).await.ports;
    let ingress: Vec<_> =
        ports.iter().filter(|port| port.kind == "ingress").map(|port| port.packets).collect();
    assert_eq!((ingress.len(), ingress.iter().sum::<u64>()), (3, 2), "three ports have a link");

    end(&mut client, "first", &token).await.unwrap();
    assert_eq!(packets(&client, "first", "received").await, Some(2), "an ended job's can still be read");
    worker.send_gradient();
    eventually(async || {
        let ports = counters(&client).await.ports;
        ports.iter().any(|port| port.kind == "rejected" && port.packets == 1)
    })
    .await;
    assert_eq!(packets(&client, "first", "received").await, Some(2), "its tables are gone");

    // The test creates as many jobs as there are indices. The last job gets the index of "first", with counters at
    // zero.
    let first = index(&client, "first").await;
    let mut last = String::new();
    for number in 0..256 {
        last = format!("job{number}");
        let (token, _) = create(&mut client, job(&last)).await.unwrap();
        end(&mut client, &last, &token).await.unwrap();
    }
    assert_eq!(index(&client, &last).await, first);
    assert_eq!(packets(&client, &last, "received").await, Some(0));
    assert_eq!(packets(&client, "first", "received").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_switch_is_named() {
    let topology = shipped("two-workers.toml");
    let switches = Switches::start(&topology).await;
    let (_controller, mut client) = start(topology, switches.addresses()).await;
    let request = v1::GetCountersRequest { switches: vec!["spine".into()] };
    let (code, text) = refusal(client.get_counters(request).await);
    assert_eq!((code, text.as_str()), (Code::NotFound, "no switch \"spine\" is managed by this controller"));
}
