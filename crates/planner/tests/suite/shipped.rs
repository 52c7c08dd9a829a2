//! Tests of plans on the topologies that the project ships.

use std::path::PathBuf;

use tributary_planner::{
    Admission, Aggregation, Downlink, FabricState, JobRequest, Member, Plan, Sender, SwitchRole, plan,
};
use tributary_topology::Topology;
use tributary_wire::Hop;

const SLOTS: u32 = 4096;
const MIB: u64 = 1 << 20;

/// Loads a topology that the project ships.
pub(crate) fn shipped(name: &str) -> Topology {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies").join(name);
    Topology::load(path).unwrap()
}

fn job(topology: &Topology) -> JobRequest {
    JobRequest::of(topology, 64, 64 * MIB).unwrap()
}

fn planned(topology: &Topology, job: &JobRequest) -> Plan {
    plan(topology, &FabricState::of(topology, SLOTS), job).unwrap()
}

fn with(topology: &Topology, aggregation: Aggregation, downlink: Downlink) -> Plan {
    planned(topology, &JobRequest { aggregation, downlink, ..job(topology) })
}

fn switch<'a>(plan: &'a Plan, name: &str) -> &'a SwitchRole {
    plan.switches.iter().find(|switch| switch.name == name).unwrap()
}

fn entry(hop: &Hop) -> (u16, u16, bool, u8, u8) {
    (hop.node.get(), hop.egress_port, hop.aggregate, hop.child, hop.fan_in)
}

#[test]
fn bytes_into_the_server_are_8_to_4_to_2_to_1() {
    let topology = shipped("three-tier-8.toml");
    let into = |aggregation| {
        let plan = with(&topology, aggregation, Downlink::Multicast);
        (plan.traffic.into_server, plan.server.fan_in)
    };
    let (tree, fan_in) = into(Aggregation::Tree);
    assert_eq!(fan_in, 1);
    assert_eq!(into(Aggregation::TwoLevels), (2 * tree, 2));
    assert_eq!(into(Aggregation::Leaf), (4 * tree, 4));
    assert_eq!(into(Aggregation::None), (8 * tree, 8));
    let overhead = tree as f64 / (64 * MIB) as f64;
    assert!((1.07..1.12).contains(&overhead), "{overhead}");
}

#[test]
fn bytes_out_of_the_server_are_8_to_1() {
    let topology = shipped("three-tier-8.toml");
    let multicast = with(&topology, Aggregation::Tree, Downlink::Multicast).traffic.out_of_server;
    let unicast = with(&topology, Aggregation::Tree, Downlink::Unicast).traffic.out_of_server;
    let ratio = unicast as f64 / multicast as f64;
    assert!((8.0..8.2).contains(&ratio), "{ratio}: 8 copies with 3 hop entries each against one without");
}

#[test]
fn bytes_follow_from_the_frames() {
    let topology = shipped("three-tier-8.toml");
    // 1,000 values are 4 SUM slices and 1 MAX slice.
    let job = JobRequest { gradient_bytes: 4_000, ..job(&topology) };
    let plan = planned(&topology, &job);
    let carried = |from: &str, to: &str| {
        let link = plan.traffic.links.iter().find(|link| link.from == from && link.to == to).unwrap();
        (link.frames, link.bytes)
    };
    assert_eq!(carried("w3", "leaf1"), (5, 5 * (70 + 4 * 6 + 1024)));
    assert_eq!(carried("leaf1", "mid0"), (5, 5 * (70 + 3 * 6 + 1024)));
    assert_eq!(carried("mid0", "root"), (5, 5 * (70 + 2 * 6 + 1024)));
    assert_eq!(carried("root", "ps"), (5, 5 * (70 + 6 + 1024)));
    assert_eq!(carried("ps", "root"), (5, 5 * (70 + 1024)));
    assert_eq!(carried("leaf1", "w3"), (5, 5 * (70 + 1024)));
    assert_eq!(plan.traffic.links.len(), 30);
    assert_eq!(plan.traffic.all_links, plan.traffic.links.iter().map(|link| link.bytes).sum::<u64>());
    assert_eq!(plan.traffic.busiest_link().unwrap().bytes, 5 * (70 + 4 * 6 + 1024));
}

/// For each slice, a link carries all streams that no switch has aggregated.
/// The loads of other jobs do not count.
#[test]
fn a_slice_takes_as_long_as_on_the_slowest_link() {
    let topology = shipped("three-tier-8.toml");
    let micros = |aggregation| with(&topology, aggregation, Downlink::Multicast).slice_time().as_micros();
    // A frame has 1,110 bytes and the remaining hop entries of the longest stack. The rate is 50 Mbit/s.
    let tree = micros(Aggregation::Tree);
    assert!((176..184).contains(&tree), "{tree} µs");
    let alone = micros(Aggregation::None);
    assert!((8 * tree - 20..8 * tree + 20).contains(&alone), "{alone} µs for 8 streams into the server");
    let mut state = FabricState::of(&topology, SLOTS);
    state.load.values_mut().for_each(|load| *load = 49_000_000);
    let loaded = plan(&topology, &state, &job(&topology)).unwrap();
    assert_eq!(loaded.slice_time().as_micros(), tree);
}

#[test]
fn stacks_and_tables_of_three_tiers() {
    let plan = with(&shipped("three-tier-8.toml"), Aggregation::Tree, Downlink::Multicast);
    let w5 = &plan.workers[5];
    assert_eq!((w5.name.as_str(), w5.rank), ("w5", 5));
    let up: Vec<_> = w5.up.iter().map(entry).collect();
    assert_eq!(up, [(6, 1, true, 1, 2), (3, 1, true, 0, 2), (1, 1, true, 1, 2), (1001, 0, true, 0, 1)]);
    let down: Vec<_> = w5.down.iter().map(entry).collect();
    assert_eq!(down, [(1, 3, true, 1, 2), (3, 2, true, 0, 2), (6, 3, true, 1, 2)]);

    let leaf = switch(&plan, "leaf2");
    assert_eq!(leaf.egress_ports, [1, 2, 3]);
    let admitted: Vec<_> =
        leaf.admission.iter().map(|a| (a.ingress_port, a.children, a.gradient, a.result)).collect();
    assert_eq!(admitted, [(1, 0b11, false, true), (2, 0b01, true, false), (3, 0b10, true, false)]);
    assert!(leaf.admission.iter().all(|a| a.aggregate && a.fan_in == 2));
    let group = leaf.result_group.as_ref().unwrap();
    assert_eq!((group.ports.as_slice(), group.release), (&[2, 3][..], true));
}

#[test]
fn a_worker_that_serves_is_a_child_where_its_sums_come_from() {
    let topology = shipped("three-tier-8.toml");
    let w0 = topology.find("w0").unwrap();
    let mut job = JobRequest { server: w0, ..job(&topology) };
    job.workers.truncate(4);
    let plan = planned(&topology, &job);
    let up: Vec<_> = plan.workers[0].up.iter().map(entry).collect();
    assert_eq!(up, [(4, 2, true, 1, 3), (1002, 0, true, 0, 1)], "in and out by leaf0's port 2");
    assert_eq!(plan.workers[0].down.iter().map(entry).collect::<Vec<_>>(), [(4, 2, true, 1, 3)]);
    let up: Vec<_> = plan.workers[3].up.iter().map(entry).collect();
    assert_eq!(up, [(5, 1, true, 1, 2), (2, 2, false, 0, 0), (4, 2, true, 0, 3), (1002, 0, true, 0, 1)]);

    let leaf = switch(&plan, "leaf0");
    let admitted: Vec<_> =
        leaf.admission.iter().map(|a| (a.ingress_port, a.children, a.gradient, a.result)).collect();
    assert_eq!(admitted, [(1, 0b001, true, false), (2, 0b010, true, true), (3, 0b100, true, false)]);
    assert_eq!(leaf.egress_ports, [1, 2, 3]);
    assert_eq!(leaf.result_group.as_ref().unwrap().ports, [1, 2, 3]);
    assert_eq!((leaf.up.port, leaf.down[1].port, leaf.down[1].key), (2, 2, w0));
    let link = plan.traffic.links.iter().find(|link| link.from == "w0").unwrap();
    assert!(!link.towards_server && plan.traffic.out_of_server == link.bytes);
    assert!(plan.notes[0].starts_with("w0 is the server and rank 0"), "{:?}", plan.notes);
}

#[test]
fn only_leaves_aggregate_where_only_they_may() {
    let plan = with(&shipped("three-tier-8.toml"), Aggregation::Leaf, Downlink::Multicast);
    for switch in &plan.switches {
        let leaf = switch.name.starts_with("leaf");
        assert_eq!((switch.aggregate, switch.fan_in), (leaf, if leaf { 2 } else { 0 }), "{}", switch.name);
        assert_eq!(switch.result_group.as_ref().unwrap().release, leaf);
    }
    // The middle switch forwards two streams, and does not distinguish them.
    let middle = switch(&plan, "mid0");
    assert!(middle.admission.iter().all(|a| a.children == 1 && !a.aggregate && a.fan_in == 0));
    let server_children: Vec<_> = plan.workers.iter().map(|w| w.up.last().unwrap().child).collect();
    assert_eq!(server_children, [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn loads_steer_the_choice_of_spine() {
    let topology = shipped("leaf-spine-8.toml");
    let spine_of = |loaded: Option<&str>| {
        let mut state = FabricState::of(&topology, SLOTS);
        if let Some(name) = loaded {
            let spine = topology.find(name).unwrap();
            for there in topology.neighbours(spine) {
                let into = topology.direction(there.link, there.node).unwrap();
                state.load.insert(into, 20_000_000);
            }
        }
        let plan = plan(&topology, &state, &job(&topology)).unwrap();
        assert_eq!((plan.server.fan_in, switch(&plan, "leaf0").fan_in), (1, 3));
        let spines = plan.switches.iter().filter(|s| s.name.starts_with("spine"));
        spines.map(|s| s.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(spine_of(None), ["spine0"]);
    assert_eq!(spine_of(Some("spine0")), ["spine1"]);
    assert_eq!(spine_of(Some("spine1")), ["spine0"]);
}

#[test]
fn another_spine_aggregates_when_one_is_full_or_dead() {
    let topology = shipped("leaf-spine-8.toml");
    let spine0 = topology.find("spine0").unwrap();
    let mut state = FabricState::of(&topology, SLOTS);
    state.free_slots.insert(spine0, 63);
    let full = plan(&topology, &state, &job(&topology)).unwrap();
    assert!(switch(&full, "spine1").aggregate);
    assert!(full.notes.is_empty(), "{:?}", full.notes);

    let mut state = FabricState::of(&topology, SLOTS);
    state.dead_nodes.insert(spine0);
    let dead = plan(&topology, &state, &job(&topology)).unwrap();
    assert_eq!(dead.switches, full.switches);
}

#[test]
fn what_meets_at_a_full_switch_passes_it_unadded() {
    let topology = shipped("three-tier-8.toml");
    let mut state = FabricState::of(&topology, SLOTS);
    state.free_slots.insert(topology.find("mid1").unwrap(), 32);
    let plan = plan(&topology, &state, &job(&topology)).unwrap();
    assert!(!switch(&plan, "mid1").aggregate);
    assert_eq!(switch(&plan, "root").fan_in, 3);
    // The packets of two children arrive at the port to mid1.
    let by_port: Vec<_> = switch(&plan, "root").admission.iter().map(|a| a.children).collect();
    assert_eq!(by_port, [0b111, 0b001, 0b110]);
    assert!(
        plan.notes[0].starts_with("mid1 has 32 free slots and the job's window needs 64"),
        "{:?}",
        plan.notes
    );
}

#[test]
fn a_plain_switch_is_skipped_in_stacks_and_makes_results_unicast() {
    let plan = with(&shipped("plain-middle-4.toml"), Aggregation::Tree, Downlink::Multicast);
    let nodes: Vec<_> = plan.workers[3].up.iter().map(|hop| hop.node.get()).collect();
    assert_eq!(nodes, [4, 1, 1001], "leaf1, root, server");
    let back: Vec<_> = plan.workers[3].down.iter().map(|hop| hop.node.get()).collect();
    assert_eq!(back, [1, 4]);
    assert_eq!(plan.downlink, Downlink::Unicast);
    assert!(plan.switches.iter().all(|switch| switch.result_group.is_none()));
    assert_eq!((plan.server.fan_in, switch(&plan, "root").fan_in), (1, 2));
    let plain = switch(&plan, "middle");
    assert!(!plain.programmable && plain.admission.is_empty() && plain.egress_ports.is_empty());
    assert!(plan.notes.iter().any(|note| note.contains("middle cannot multicast")), "{:?}", plan.notes);
    assert!(plan.notes.iter().any(|note| note.contains("middle is not programmable")), "{:?}", plan.notes);
}

#[test]
fn behind_a_plain_switch_each_host_is_let_in_as_what_it_is() {
    let plan = with(&shipped("plain-middle-4.toml"), Aggregation::Tree, Downlink::Unicast);
    let admitted = |name: &str| -> Vec<_> {
        let name_of = |sender: &Sender| sender.name.clone();
        let entry = |a: &Admission| {
            (a.ingress_port, a.sender.as_ref().map(name_of), a.children, a.rank, (a.gradient, a.result))
        };
        switch(&plan, name).admission.iter().map(entry).collect()
    };
    let host = |name: &str| Some(name.to_owned());
    let (gradients, results) = ((true, false), (false, true));
    // The sums of w0 and w1 have the addresses and the rank of one of the two.
    let by_children = [("w0", 0b01, 0), ("w1", 0b01, 1), ("w2", 0b10, 2), ("w3", 0b10, 3)];
    let of_root = by_children.map(|(name, child, rank)| (2, host(name), child, Some(rank), gradients));
    assert_eq!(admitted("root"), [&[(1, None, 0b11, None, results)][..], &of_root].concat());
    let of_leaf = [
        (1, host("ps"), 0b11, None, results),
        (2, None, 0b01, Some(0), gradients),
        (3, None, 0b10, Some(1), gradients),
    ];
    assert_eq!(admitted("leaf0"), of_leaf);
}

#[test]
fn it_says_where_nothing_is_gained() {
    let two = with(&shipped("two-workers.toml"), Aggregation::Tree, Downlink::Multicast);
    let speedup = two.comparison.speedup_over_ring.unwrap();
    assert!((0.9..1.0).contains(&speedup), "{speedup}");
    assert!(
        two.notes.iter().any(|note| note.contains("gains nothing here: a ring all-reduce")),
        "{:?}",
        two.notes
    );

    let eight = with(&shipped("three-tier-8.toml"), Aggregation::Tree, Downlink::Multicast);
    assert!(eight.notes.is_empty(), "{:?}", eight.notes);
    let ring = eight.comparison.speedup_over_ring.unwrap();
    assert!((1.55..1.75).contains(&ring), "{ring}: at most 2 * 7 / 8");
    let server = eight.comparison.speedup_over_parameter_server;
    assert!((7.5..8.0).contains(&server), "{server}");
}

#[test]
fn the_ring_is_the_best_that_these_links_allow() {
    for name in ["three-tier-8.toml", "leaf-spine-8.toml"] {
        let plan = with(&shipped(name), Aggregation::Tree, Downlink::Multicast);
        assert_eq!(plan.comparison.ring_bytes, 2 * 7 * 64 * MIB / 8);
        let seconds = plan.comparison.ring_bytes as f64 * 8.0 / 50e6;
        assert!((plan.comparison.ring_seconds - seconds).abs() < 1e-9, "each link is in one step only");
    }
}

#[test]
fn ranks_stay_with_their_hosts() {
    let topology = shipped("three-tier-8.toml");
    let mut hosts = topology.workers();
    hosts.reverse();
    let mut job = JobRequest { workers: Member::ranked(hosts), ..job(&topology) };
    let ranks = |job: &JobRequest| -> Vec<_> {
        let plan = planned(&topology, job);
        plan.workers.into_iter().map(|worker| (worker.rank, worker.name)).collect()
    };
    let expected: Vec<_> = (0..8).map(|rank| (rank, format!("w{}", 7 - rank))).collect();
    assert_eq!(ranks(&job), expected);
    // Children are numbered by port, independently of ranks.
    assert_eq!(planned(&topology, &job).workers[7].up[0].child, 0);

    job.workers.remove(2);
    assert_eq!(ranks(&job), [&expected[..2], &expected[3..]].concat());
}

#[test]
fn a_plan_can_be_written_as_json() {
    let plan = with(&shipped("three-tier-8.toml"), Aggregation::Tree, Downlink::Multicast);
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["workers"][0]["up"][0]["fan_in"], 2);
    assert_eq!(json["server"]["node"], 1001);
    assert_eq!(json["traffic"]["into_server"], plan.traffic.into_server);
}
