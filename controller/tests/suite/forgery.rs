//! Tests in which a host in no job sends gradients that are wrong only in their numbers.
//!
//! They run on real interfaces, with the embedded switch and with BMv2. They need root and `ip` (iproute2), and one of
//! them needs `simple_switch_grpc`. Without these, each test prints that and passes.

use tributary_api::v1;
use tributary_controller::RunningController;
use tributary_topology::Topology;
use tributary_wire::SliceWidth;

use crate::common::{Client, job, start};
use crate::switches::{Switches, eventually};
use crate::wire::forger;
use crate::wire::network::{Bmv2Network, in_bare_namespace, in_namespace};
use crate::wire::sending::{at_port, embedded_ports, send};
use crate::wire::team::Team;

/// A topology with a stranger at a switch that aggregates, and another at a plain switch on the job's
/// path.
const TOPOLOGY: &str = r#"
    name = "strangers"
    description = "Two workers and a stranger under a switch; a plain one with another stranger; the server"
    [defaults]
    rate = "1 Gbit/s"
    [[switch]]
    name = "leaf"
    [[switch]]
    name = "plain"
    programmable = false
    [[host]]
    name = "w0"
    role = "worker"
    [[host]]
    name = "w1"
    role = "worker"
    [[host]]
    name = "x0"
    role = "worker"
    [[host]]
    name = "x1"
    role = "worker"
    [[host]]
    name = "ps"
    role = "server"
    [[link]]
    ends = ["leaf", "w0"]
    [[link]]
    ends = ["leaf", "w1"]
    [[link]]
    ends = ["leaf", "x0"]
    [[link]]
    ends = ["leaf", "plain"]
    [[link]]
    ends = ["plain", "x1"]
    [[link]]
    ends = ["plain", "ps"]
"#;

/// The number of values of a few slices, of which the last one is not full.
const LEN: usize = 5 * SliceWidth::ETHERNET.values() - 1;

/// The Ethernet type and the VLAN of each tag, the outermost tag first.
type Tags = &'static [(u16, u16)];

/// 802.1Q tags, 802.1ad tags, priority tags, and tags of older kinds, with one to three tags in each
/// frame.
const TAGGINGS: [Tags; 11] = [
    &[(0x8100, 5)],
    &[(0x88a8, 5)],
    &[(0x8100, 0)],
    &[(0x88a8, 0)],
    &[(0x8100, 5), (0x8100, 6)],
    &[(0x88a8, 5), (0x8100, 6)],
    &[(0x88a8, 0), (0x88a8, 0)],
    &[(0x8100, 0), (0x9100, 6)],
    &[(0x8100, 5), (0x8100, 6), (0x8100, 7)],
    &[(0x88a8, 5), (0x88a8, 6), (0x88a8, 7)],
    &[(0x88a8, 0), (0x8100, 0), (0x8100, 0)],
];

fn topology() -> Topology {
    Topology::parse(TOPOLOGY, "strangers").unwrap()
}

fn tagged(frame: &[u8], tags: Tags) -> Vec<u8> {
    let tags = tags.iter().flat_map(|(kind, vlan)| [kind.to_be_bytes(), vlan.to_be_bytes()].concat());
    [&frame[..12], &tags.collect::<Vec<_>>(), &frame[12..]].concat()
}

/// Returns the packets that a switch has counted at its port towards `host`.
async fn counted(client: &Client, switch: &str, host: &str, kind: &str) -> u64 {
    at_port(client, &topology(), (switch, host), kind).await
}

/// Returns the values that a worker contributes.
fn values(rank: u16) -> Vec<i32> {
    (0..LEN as i32).map(|index| (index - 1000) * (i32::from(rank) + 1)).collect()
}

/// Strangers send sums to the server before any worker sends gradients.
/// If the server accepted such a sum, it would send it to the workers, which would detect it only by its tag.
async fn nobody_believes_a_stranger(switches: &Switches) {
    let (controller, mut client) = start(topology(), switches.addresses()).await;
    let request = v1::CreateJobRequest { workers: vec!["w0".into(), "w1".into()], ..job("right") };
    let team = Team::start(&controller, &mut client, request).await;
    let first = team.worker_configs[&0].own;
    let forge =
        |from| forger::gradients(&team.server_config, from, |rank| vec![1_000_000 + i32::from(rank); LEN]);
    let [forged, of_member] = [forger::own(), first].map(forge);
    assert_eq!(forged.len(), 1 + LEN.div_ceil(SliceWidth::ETHERNET.values()), "the bounds, and the values");

    let tag_all = |frames: &[Vec<u8>]| -> Vec<_> {
        TAGGINGS.iter().flat_map(|tags| frames.iter().map(|frame| tagged(frame, tags))).collect()
    };
    let rejected = async || counted(&client, "leaf", "x0", "rejected").await;
    let sent = send("x0", &[forged.clone(), tag_all(&forged)].concat(), 0, rejected).await;
    let received = || team.server.stats().unwrap().protocol.received;
    assert_eq!((counted(&client, "leaf", "x0", "ingress").await, received()), (sent, 0));

    // A plain switch forwards all frames unchanged. The server must not accept these frames from any sender.
    let untrue = [tag_all(&forged), tag_all(&of_member), forged].concat();
    let sent = send("x1", &untrue, 0, async || counted(&client, "plain", "x1", "ingress").await).await;
    eventually(async || counted(&client, "plain", "ps", "egress").await >= sent).await;
    assert_eq!(counted(&client, "plain", "x1", "rejected").await, 0);
    assert_eq!(received(), 0);

    let right: Vec<i32> = values(0).iter().zip(values(1)).map(|(one, other)| one + other).collect();
    for sums in team.all_reduce(values).await {
        assert!(sums == right, "a stranger's numbers are in the sum");
    }
    what_a_plain_switch_lets_through_is_noticed(&controller, &mut client).await;
    controller.shutdown().await.unwrap();
}

/// Tests frames with forged addresses of a member that a plain switch forwards to the server.
/// The server cannot distinguish a forged sum from a true one. The workers can, because the stranger does not have
/// their secret.
async fn what_a_plain_switch_lets_through_is_noticed(controller: &RunningController, client: &mut Client) {
    let request = v1::CreateJobRequest { workers: vec!["w0".into(), "w1".into()], ..job("wrong") };
    let team = Team::start(controller, client, request).await;
    let first = team.worker_configs[&0].own;
    let values_of = |rank| vec![1_000_000 + i32::from(rank); LEN];
    let forged = forger::gradients(&team.server_config, first, values_of);
    let received = async || team.server.stats().unwrap().protocol.completed;
    send("x1", &forged, 0, received).await;
    for outcome in team.outcomes(values).await {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("its tag does not fit its values"), "{error}");
    }
}

#[test]
fn with_the_embedded_switch_nobody_believes_a_stranger() {
    in_bare_namespace(async || {
        let topology = topology();
        nobody_believes_a_stranger(&Switches::start_with(&topology, embedded_ports(&topology)).await).await;
    });
}

#[test]
fn with_bmv2_nobody_believes_a_stranger() {
    in_namespace(async || {
        let fabric = Bmv2Network::start(&topology());
        nobody_believes_a_stranger(&fabric.look()).await;
    });
}
