//! Tests of a worker's host that also serves the worker's job.
//! Real agents run on embedded switches that hold the plan's tables.

use crate::common;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::splitter::Splitter;
use crate::switches::Switches;
use tributary_api::{DownPath, Endpoint, JobConfig, ProcessCounts, Role};
use tributary_host_agent::{ServerAgent, WorkerAgent};
use tributary_link::{FramePort, InProcessPort, LinkConfig, LinkMeter, link};
use tributary_p4runtime::entry::{ActionCall, Entity, MulticastGroup, TableEntry};
use tributary_planner::{Downlink, FabricState, JobRequest, Plan, SwitchRole, choose, plan};
use tributary_protocol::{AllReduce, GradientData, Sums, Timers, vouching_key};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::constants::{KIND_GRADIENT, KIND_RESULT, RANK_ALL};
use tributary_wire::{JobId, JobSecret, MacAddr, Rank, Seq, SliceWidth};

const JOB: u16 = 7;
const WINDOW: u32 = 64;
/// The number of values. They fill more slices than the window has slots, and the last slice is not
/// full.
const LEN: usize = 150 * SliceWidth::ETHERNET.values() + 17;
const GROUP: u16 = 2;
/// The time limit of a wait. It is far above the duration of any wait in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the plan of a job on three-tier-8 after the root has failed.
/// The server is behind the root, so another host becomes the server.
fn left_over(topology: &Topology, downlink: Downlink) -> Plan {
    let mut state = FabricState::of(topology, 4096);
    state.dead_nodes.insert(topology.find("root").unwrap());
    let job = JobRequest { downlink, ..JobRequest::of(topology, WINDOW, 4 * LEN as u64).unwrap() };
    let hosts: Vec<_> = topology.hosts().map(|(host, ..)| host).collect();
    let chosen = choose(topology, &state, &job, &hosts).unwrap();
    let mut job = JobRequest { server: chosen.server, ..job };
    job.workers.retain(|worker| !chosen.left_out.contains(worker));
    let plan = plan(topology, &state, &job).unwrap();
    assert_eq!((plan.server.name.as_str(), plan.workers.len()), ("w0", 4));
    plan
}

/// Returns the entities of the plan for a switch, without forwarding by MAC address.
fn entities(role: &SwitchRole) -> Vec<Entity> {
    let call = ActionCall::new;
    let table = TableEntry::new;
    let identity = call("set_identity").with("node", role.node.get());
    let mut all: Vec<Entity> = vec![TableEntry::default_of("identity").action(identity).into()];
    if let Some(group) = &role.result_group {
        all.push(
            MulticastGroup::to_ports(GROUP.into(), group.ports.iter().map(|port| (*port).into())).into(),
        );
        let deliver = call("deliver").with("group", GROUP).with("release", u8::from(group.release));
        all.push(table("result_group").exact("job", JOB).action(deliver).into());
    }
    for port in &role.egress_ports {
        let guard = table("egress_guard").exact("job", JOB).exact("egress_port", *port);
        all.push(guard.action(call("allow")).into());
    }
    for entry in &role.admission {
        let bit = |set, kind| if set { kind } else { 0 };
        let admit = call("admit")
            .with("job_index", 0u16)
            .with("slot_base", 0u32)
            .with("slot_mask", WINDOW - 1)
            .with("children", entry.children)
            .with("kinds", bit(entry.gradient, KIND_GRADIENT) | bit(entry.result, KIND_RESULT))
            .with("aggregate", u8::from(entry.aggregate))
            .with("fan_in", entry.fan_in)
            .with("rank", entry.rank.unwrap_or(RANK_ALL));
        let key = table("admission").exact("job", JOB).exact("ingress_port", entry.ingress_port);
        all.push(key.action(admit).into());
    }
    all
}

/// The switches of the network, and each host's end of its link.
struct Network {
    _switches: Switches,
    hosts: HashMap<NodeKey, InProcessPort>,
    /// Counts the frames on the server's link.
    meter: LinkMeter,
    server_end: usize,
}

impl Network {
    async fn start(topology: &Topology, plan: &Plan, loss: f64) -> Self {
        let mut ends: HashMap<NodeKey, Vec<(u16, InProcessPort)>> = HashMap::new();
        let mut of_server = None;
        for (seed, (_, ends_of_link)) in (1..).zip(topology.links()) {
            let (a, b, meter) = link(&LinkConfig { loss, seed, queue_frames: 4096 }).unwrap();
            for (n, (end, port)) in ends_of_link.ends.into_iter().zip([a, b]).enumerate() {
                if end.node == plan.server.key {
                    of_server = Some((meter.clone(), n));
                }
                ends.entry(end.node).or_default().push((end.port, port));
            }
        }
        let ports = |name: &str| {
            let own = ends.remove(&topology.find(name).unwrap()).unwrap_or_default();
            own.into_iter().map(|(port, end)| (port, Box::new(end) as Box<dyn FramePort>)).collect()
        };
        let switches = Switches::start_with(topology, ports).await;
        for role in &plan.switches {
            switches.install_and_write(&role.name, 1, &entities(role)).await;
        }
        let hosts = ends.into_iter().map(|(host, mut ends)| (host, ends.remove(0).1)).collect();
        let (meter, server_end) = of_server.unwrap();
        Self { _switches: switches, hosts, meter, server_end }
    }

    /// Returns the numbers of frames that the server's host has received and sent.
    fn frames_of_server(&self) -> [u64; 2] {
        let directions = [&self.meter.a_to_b, &self.meter.b_to_a];
        // The direction `a_to_b` starts at the link's first end.
        let [into, out] = if self.server_end == 1 { [0, 1] } else { [1, 0] };
        [into, out].map(|at| directions[at].read().frames)
    }
}

fn config(topology: &Topology, plan: &Plan, host: NodeKey, role: Role) -> JobConfig {
    JobConfig {
        generation: 1,
        begun: 0,
        joined: Vec::new(),
        regroup: false,
        adopted: Vec::new(),
        processes: ProcessCounts::default(),
        reason: String::new(),
        name: "shared".into(),
        job: JobId::new(JOB).unwrap(),
        width: plan.width,
        window: WINDOW,
        start_seqs: vec![Seq::FIRST],
        downlink: plan.downlink,
        slice_time: plan.slice_time(),
        switches: plan.aggregating_switches(),
        ranks: plan.workers.iter().map(|worker| Rank::new(worker.rank)).collect(),
        own: endpoint(topology, host),
        server: endpoint(topology, plan.server.key),
        multicast: Endpoint {
            mac: MacAddr::new(1, 0, 0x5e, 0x40, 0, 7),
            ip: std::net::Ipv4Addr::new(239, 192, 0, 7),
        },
        role,
    }
}

fn endpoint(topology: &Topology, host: NodeKey) -> Endpoint {
    let host = topology[host].host().unwrap();
    Endpoint { mac: host.mac, ip: host.ip }
}

fn secret() -> JobSecret {
    JobSecret::new([1; JobSecret::BYTES])
}

/// All members, each on the link of its host. The members on the server's host share one link.
struct Team {
    workers: BTreeMap<u16, WorkerAgent>,
    server: ServerAgent,
    /// The last field, because it must be dropped after the agents.
    _splitter: Splitter,
}

impl Team {
    fn start(topology: &Topology, plan: &Plan, network: &mut Network) -> Self {
        let shared = network.hosts.remove(&plan.server.key).unwrap();
        let (splitter, [of_server, of_worker]) = Splitter::start(shared);
        network.hosts.insert(plan.server.key, of_worker);
        let worker = |route: &tributary_planner::WorkerRoute| {
            let role = Role::Worker {
                rank: Rank::new(route.rank),
                up: route.up.clone(),
                secret: secret(),
                confidential: true,
            };
            let config = config(topology, plan, route.key, role);
            let port = network.hosts.remove(&route.key).unwrap();
            (route.rank, WorkerAgent::start(&config, Timers::default(), Box::new(port)).unwrap())
        };
        let workers = plan.workers.iter().map(worker).collect();
        let down = |route: &tributary_planner::WorkerRoute| DownPath {
            rank: Rank::new(route.rank),
            worker: endpoint(topology, route.key),
            hops: route.down.clone(),
        };
        let down = plan.workers.iter().map(down).collect();
        let role = Role::Server {
            node: plan.server.node,
            fan_in: plan.server.fan_in,
            down,
            take_over: None,
            vouching_key: vouching_key(&secret()),
            secret: None,
            confidential: true,
        };
        let server = config(topology, plan, plan.server.key, role);
        let server = ServerAgent::start(&server, Box::new(of_server)).unwrap();
        Self { workers, server, _splitter: splitter }
    }

    /// Lets every worker reduce its values, and returns the workers' results.
    fn all_reduce(&self) -> Vec<Sums> {
        let (done, results) = mpsc::channel();
        thread::scope(|scope| {
            for (rank, agent) in &self.workers {
                let (data, done) = (GradientData::I32(values(*rank)), done.clone());
                let operation = AllReduce { name: "gradient".into(), data, weight: 1 };
                scope.spawn(move || done.send(agent.all_reduce(operation).unwrap().sums).unwrap());
            }
            let sums = || {
                let result = results.recv_timeout(PATIENCE);
                // The workers are ended, because they would wait forever.
                result.inspect_err(|_| self.workers.values().for_each(|agent| agent.end("no result")))
            };
            self.workers.iter().map(|_| sums().unwrap()).collect()
        })
    }
}

/// Returns values that differ from worker to worker and whose sum does not overflow.
fn values(rank: u16) -> Vec<i32> {
    (0..LEN).map(|index| (index as i32 - 1000) * (i32::from(rank) + 1)).collect()
}

async fn the_sums_are_right(downlink: Downlink, loss: f64) {
    let topology = common::shipped("three-tier-8.toml");
    let plan = left_over(&topology, downlink);
    let mut network = Network::start(&topology, &plan, loss).await;
    let team = Team::start(&topology, &plan, &mut network);
    let expected: Vec<i32> = values(0).iter().map(|own| own * (1 + 2 + 3 + 4)).collect();
    for _ in 0..2 {
        for sums in team.all_reduce() {
            assert!(sums == Sums::I32(expected.clone()));
        }
    }
    let slices = team.workers[&0].stats().unwrap().protocol.sent;
    assert!(slices >= 2 * 150);
    // For each slice, the server's host receives and sends two frames. It receives the sum and the worker's result, and
    // sends the worker's gradient and the server's result. There is one sum for any number of workers.
    let [into, out] = network.frames_of_server();
    assert!(into >= 2 * slices && out >= 2 * slices, "{into} and {out} frames for {slices} slices");
    if loss == 0.0 {
        assert_eq!(plan.server.fan_in, 1);
        assert_eq!(team.server.stats().unwrap().protocol.completed, slices);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_with_multicast_results() {
    the_sums_are_right(Downlink::Multicast, 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_with_unicast_results() {
    the_sums_are_right(Downlink::Unicast, 0.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_while_frames_are_lost() {
    the_sums_are_right(Downlink::Multicast, 0.02).await;
    the_sums_are_right(Downlink::Unicast, 0.02).await;
}
