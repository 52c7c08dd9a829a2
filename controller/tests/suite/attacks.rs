//! Tests that a sum is right or an error, under attacks from the wire and from switches.
//!
//! They run on real interfaces, with the embedded switch and, if it is installed, with BMv2. Attacks by hosts in no job
//! and attacks with VLAN tags are in `forgery`.
//!
//! They need root and `ip` (iproute2). Without these, each test prints that and passes.

use crate::common;
use tributary_api::{Endpoint, Role, v1};
use tributary_controller::{Controller, ControllerConfig, PipelineSource, RunningController};
use tributary_link::{FramePort, InterfacePort};
use tributary_topology::Topology;
use tributary_wire::{Hop, NodeId, Rank, Seq, SliceWidth};

use crate::common::{Client, job, programs, start_with};
use crate::switches::Switches;
use crate::wire::frames::{Packet, recorded};
use crate::wire::mutants::Mutant;
use crate::wire::network::{Bmv2Network, in_bare_namespace, in_namespace};
use crate::wire::sending::{self, at_port, counters, embedded_ports};
use crate::wire::team::Team;

/// The text in every error for a wrong sum, for any slice and any way in which a member noticed the
/// error.
const WRONG: &str = "a switch's addition is wrong";

/// The hosts of two jobs, "right" and "other". `none` is in neither job. `shared` is behind the same
/// port as w1.
const TOPOLOGY: &str = r#"
    name = "attacks"
    description = "A leaf with a plain switch behind it, and a root with the server"
    [defaults]
    rate = "1 Gbit/s"
    [[switch]]
    name = "leaf"
    [[switch]]
    name = "plain"
    programmable = false
    [[switch]]
    name = "root"
    [[host]]
    name = "w0"
    role = "worker"
    [[host]]
    name = "w1"
    role = "worker"
    [[host]]
    name = "o0"
    role = "worker"
    [[host]]
    name = "o1"
    role = "worker"
    [[host]]
    name = "o2"
    role = "worker"
    [[host]]
    name = "none"
    role = "worker"
    [[host]]
    name = "shared"
    role = "worker"
    [[host]]
    name = "ps"
    role = "server"
    [[link]]
    ends = ["leaf", "root"]
    [[link]]
    ends = ["leaf", "plain"]
    [[link]]
    ends = ["root", "ps"]
    [[link]]
    ends = ["leaf", "w0"]
    [[link]]
    ends = ["plain", "w1"]
    [[link]]
    ends = ["plain", "shared"]
    [[link]]
    ends = ["leaf", "o0"]
    [[link]]
    ends = ["leaf", "o1"]
    [[link]]
    ends = ["root", "o2"]
    [[link]]
    ends = ["leaf", "none"]
"#;

/// The number of values of a few slices, of which the last one is not full.
const LEN: usize = 5 * SliceWidth::ETHERNET.values() - 1;

fn topology() -> Topology {
    Topology::parse(TOPOLOGY, "attacks").unwrap()
}

/// Returns the values that a worker contributes.
fn values(rank: u16) -> Vec<i32> {
    (0..LEN as i32).map(|index| (index - 1000) * (i32::from(rank) + 1)).collect()
}

/// Returns the sum of the values of all workers.
fn sum_of(team: &Team) -> Vec<i32> {
    let all: Vec<_> = team.worker_configs.keys().map(|rank| values(*rank)).collect();
    (0..LEN).map(|index| all.iter().map(|values| values[index]).sum()).collect()
}

async fn is_right(team: &Team) {
    for sums in team.all_reduce(values).await {
        assert!(sums == sum_of(team), "not the members' sum");
    }
}

/// A counter of a switch: either packets at the port to a host, or packets of a job. The second string
/// is the kind.
#[derive(Debug, Clone, Copy)]
enum Count {
    Port(&'static str, &'static str),
    Job(&'static str, &'static str),
}

struct Scene {
    controller: RunningController,
    client: Client,
    right: Team,
    other: Team,
}

impl Scene {
    async fn start(switches: &Switches, program: &PipelineSource) -> Self {
        let (controller, mut client) = start_with(topology(), switches.addresses(), program.clone()).await;
        let right = v1::CreateJobRequest { workers: vec!["w0".into(), "w1".into()], ..job("right") };
        let right = Team::start(&controller, &mut client, right).await;
        let other =
            v1::CreateJobRequest { workers: ["o0", "o1", "o2"].map(String::from).into(), ..job("other") };
        let other = Team::start(&controller, &mut client, other).await;
        Self { controller, client, right, other }
    }

    async fn counted(&self, switch: &str, count: Count) -> u64 {
        match count {
            Count::Port(host, kind) => at_port(&self.client, &topology(), (switch, host), kind).await,
            Count::Job(name, reason) => {
                let counters = counters(&self.client, switch).await;
                let mut jobs = counters.jobs.iter();
                jobs.find(|one| one.job == name && one.reason == reason).unwrap().packets
            }
        }
    }

    /// Sends frames out of a host's interface, and waits until a switch has counted all of them.
    async fn send(&self, host: &str, frames: &[Vec<u8>], switch: &str, count: Count) {
        println!("{} frames from {host}: {count:?} of {switch}", frames.len());
        let before = self.counted(switch, count).await;
        sending::send(host, frames, before, async || self.counted(switch, count).await).await;
    }

    async fn all_is_right(&self) {
        is_right(&self.right).await;
        is_right(&self.other).await;
    }
}

/// Returns corrupt variants of a frame: truncated frames, and frames with a wrong header field.
fn broken(frame: &[u8]) -> Vec<Vec<u8>> {
    // The offsets include the Ethernet header: flags and fragment offset at 20, IPv4 checksum at 24, hop count at 48.
    // The INA header begins at 42.
    let with = |at: usize, byte: u8| {
        let mut frame = frame.to_vec();
        frame[at] = byte;
        // After a change in the IPv4 header, its checksum is corrected, so that only the changed field is wrong.
        if (14..34).contains(&at) {
            frame[24..26].fill(0);
            let sum: u32 =
                frame[14..34].chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
            let sum = (sum & 0xffff) + (sum >> 16);
            frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        frame
    };
    let mut damaged = frame.to_vec();
    damaged[24] ^= 1;
    vec![
        frame[..60].to_vec(),
        frame[..frame.len() - 1].to_vec(),
        with(20, 0x20),
        with(48, 255),
        with(48, 9),
        with(42, 0xf0),
        damaged,
    ]
}

async fn sums_stay_right_whoever_sends_what(switches: &Switches, program: &PipelineSource) {
    println!("with {program:?}");
    let scene = Scene::start(switches, program).await;
    let Scene { right, other, .. } = &scene;
    let (w0, o0) = (&right.worker_configs[&0], &other.worker_configs[&0]);
    let gradient = |config| Packet::gradient(config).bytes();

    // Frames of job "right" from a host in no job and from a host in another job.
    let all =
        |config| [gradient(config), Packet::probe(config).bytes(), Packet::result(config, Seq(0)).bytes()];
    scene.send("none", &all(w0), "leaf", Count::Port("none", "rejected")).await;
    scene.send("o0", &all(w0), "leaf", Count::Port("o0", "rejected")).await;
    scene.send("o2", &all(w0), "root", Count::Port("o2", "rejected")).await;
    let flood = vec![Packet::probe(w0).bytes(); 2000];
    scene.send("none", &flood, "leaf", Count::Port("none", "rejected")).await;

    // Frames from a member that gives a wrong rank, kind or hop.
    let topology = topology();
    let port_of = |host: &str| {
        let [leaf, host] = ["leaf", host].map(|name| topology.find(name).unwrap());
        topology.forwarding().next(leaf, host).unwrap().port
    };
    let lie = |change: &dyn Fn(&mut Hop)| Packet::gradient(o0).with_hop(change).bytes();
    let mut as_result = Packet::result(o0, o0.start_seqs[0]);
    as_result.hops = Packet::gradient(o0).hops;
    let o1 = &other.worker_configs[&1];
    let as_another = |mut packet: Packet| {
        packet.header.rank = Rank::new(1);
        packet.sent_by(o1.own).bytes()
    };
    let lies = [
        as_another(Packet::gradient(o0)),
        as_another(Packet::probe(o0)),
        lie(&|hop| hop.child += 1),
        lie(&|hop| hop.child = 63),
        lie(&|hop| hop.fan_in += 1),
        lie(&|hop| hop.aggregate = !hop.aggregate),
        lie(&|hop| hop.egress_port = port_of("w0")),
        lie(&|hop| hop.egress_port = port_of("none")),
        Packet::result(o0, o0.start_seqs[0]).bytes(),
        as_result.bytes(),
    ];
    scene.send("o0", &lies, "leaf", Count::Job("other", "rejected")).await;
    let elsewhere = lie(&|hop| hop.node = NodeId::new(hop.node.get() + 1).unwrap());
    scene.send("o0", &[elsewhere], "leaf", Count::Port("o0", "rejected")).await;

    // Corrupt packets from a host whose valid packets are admitted.
    let port = Count::Port("w0", "rejected");
    scene.send("w0", &broken(&gradient(w0)), "leaf", port).await;
    assert_eq!(right.server.stats().unwrap().protocol.received, 0);
    scene.all_is_right().await;

    // Replays of w0's packets: from w0 while its slots are free, and from another host.
    let replay = recorded(w0, values);
    assert!(replay.len() > 1 + LEN / w0.width.values());
    scene.send("w0", &replay, "leaf", Count::Port("w0", "ingress")).await;
    scene.send("o0", &replay, "leaf", Count::Port("o0", "rejected")).await;
    scene.all_is_right().await;
    scene.send("w0", &replay, "leaf", Count::Port("w0", "ingress")).await;

    // A member sends PROBEs at a high rate, and the other job continues.
    let flood = vec![Packet::probe(o0).bytes(); 2000];
    let (_, ()) = tokio::join!(scene.send("o0", &flood, "leaf", Count::Job("other", "probe")), async {
        for sums in right.all_reduce(values).await {
            assert!(sums == sum_of(right), "not the members' sum");
        }
    });
    scene.all_is_right().await;

    a_members_neighbour_gets_nothing_in(&scene).await;
    who_forges_both_of_a_members_addresses_can_stop_its_job(&scene).await;
    is_right(other).await;
    scene.controller.shutdown().await.unwrap();
}

fn endpoint(host: &str) -> Endpoint {
    let topology = topology();
    let host = topology[topology.find(host).unwrap()].host().unwrap();
    Endpoint { mac: host.mac, ip: host.ip }
}

/// Returns the packets that a member and the server could send next in job "right".
///
/// `from` maps the real sender's addresses to the addresses in the packets.
fn everything(right: &Team, from: impl Fn(Endpoint) -> Endpoint) -> Vec<Vec<u8>> {
    let Role::Server { down, .. } = &right.server_config.role else { panic!("not what a server was told") };
    let (w0, w1) = (&right.worker_configs[&0], &right.worker_configs[&1]);
    let seqs = [w1.start_seqs[0], Seq(w1.start_seqs[0].0 + 1)];
    let of_server = |seq| Packet::result_to(w0, &down[0].hops[1..], seq).sent_by(from(w0.server));
    let of_member = [Packet::gradient(w1), Packet::probe(w1)].map(|packet| packet.sent_by(from(w1.own)));
    of_member.into_iter().chain(seqs.map(of_server)).map(|packet| packet.bytes()).collect()
}

/// Checks that the packets of a member's neighbour behind a plain switch are rejected.
///
/// The neighbour is behind the same port as the member. A host needs both the MAC and the IP address of the member to
/// pass as the member.
async fn a_members_neighbour_gets_nothing_in(scene: &Scene) {
    let Scene { right, .. } = scene;
    let own = endpoint("shared");
    let port = Count::Port("shared", "rejected");
    let received = right.server.stats().unwrap().protocol.received;
    let disguises: [&dyn Fn(Endpoint) -> Endpoint; 3] =
        [&|_| own, &|of| Endpoint { mac: of.mac, ..own }, &|of| Endpoint { ip: of.ip, ..own }];
    for disguise in disguises {
        scene.send("shared", &everything(right, disguise), "leaf", port).await;
    }
    assert_eq!(right.server.stats().unwrap().protocol.received, received);

    // The job also works while the neighbour sends forged results, which the plain switch forwards directly to the
    // member.
    let w1 = &right.worker_configs[&1];
    let beside = |seq| Packet::result_to(w1, &[], seq).sent_by(own).bytes();
    let mut results = InterfacePort::open("shared").unwrap();
    let flood = vec![everything(right, |_| own); 100].concat();
    let (_, ()) = tokio::join!(scene.send("shared", &flood, "leaf", port), async {
        for slice in 0..5 {
            (0..16).for_each(|ahead| results.send(&beside(Seq(w1.start_seqs[0].0 + ahead))).unwrap());
            results.flush().unwrap();
            is_right(right).await;
            println!("all-reduce {slice} beside a neighbour's results is right");
        }
    });
    scene.all_is_right().await;
}

async fn who_forges_both_of_a_members_addresses_can_stop_its_job(scene: &Scene) {
    let Scene { right, .. } = scene;
    let w1 = &right.worker_configs[&1];
    let mut forged = everything(right, |of| of);
    forged.push(Packet::result_to(w1, &[], w1.start_seqs[0]).bytes());
    let mut port = InterfacePort::open("shared").unwrap();
    let attack = async {
        for _ in 0..50 {
            forged.iter().for_each(|frame| port.send(frame).unwrap());
            port.flush().unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (outcomes, ()) = tokio::join!(right.outcomes(values), attack);
    for outcome in outcomes {
        match outcome {
            Ok(sums) => assert!(sums == sum_of(right), "not the members' sum"),
            Err(error) => assert!(error.to_string().contains(WRONG), "{error}"),
        }
    }
}

#[test]
fn with_the_embedded_switch_sums_stay_right_whoever_sends_what() {
    for program in programs() {
        in_bare_namespace(async || {
            let topology = topology();
            let switches = Switches::start_with(&topology, embedded_ports(&topology)).await;
            sums_stay_right_whoever_sends_what(&switches, &program).await;
        });
    }
}

#[test]
fn with_bmv2_sums_stay_right_whoever_sends_what() {
    for program in programs() {
        in_namespace(async || {
            let fabric = Bmv2Network::start(&topology());
            sums_stay_right_whoever_sends_what(&fabric.look(), &program).await;
        });
    }
}

#[test]
fn a_switch_that_does_something_else_to_values_is_noticed() {
    in_bare_namespace(async || {
        let topology = topology();
        let switches = Switches::start_with(&topology, embedded_ports(&topology)).await;
        for mutant in Mutant::ALL {
            let program = mutant.program();
            let config = ControllerConfig {
                switches: switches.addresses(),
                pipeline: PipelineSource::Directory(program.path().to_owned()),
                ..common::config(self::topology())
            };
            let controller = Controller::start(config).await.unwrap();
            let mut client = common::connect(&controller).await;
            let request = v1::CreateJobRequest { workers: vec!["w0".into(), "w1".into()], ..job("right") };
            let team = Team::start(&controller, &mut client, request).await;
            for outcome in team.outcomes(values).await {
                let Err(error) = outcome else { panic!("{mutant:?}: a sum") };
                // Chance decides which slice fails first. A MAX slice's tag does not cover its values, so a member
                // detects a wrong MAX slice by its own bound, which is missing in the result.
                let error = error.to_string();
                assert!(error.contains(WRONG), "{mutant:?}: {error}");
            }
            controller.shutdown().await.unwrap();
        }
    });
}
