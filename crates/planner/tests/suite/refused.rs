//! Tests of requests that have no plan.

use std::fmt::Write;

use tributary_planner::{Aggregation, FabricState, JobRequest, Member, Plan, PlanError, plan};
use tributary_topology::{FatTree, NodeKey, Topology};

/// Makes a row of `depth` switches, with the server at the first switch and the workers at the last.
fn chain(depth: usize, workers: usize) -> Topology {
    let mut text = "name = 'chain'\ndefaults = { rate = '1 Gbit/s' }\n".to_owned();
    for n in 0..depth {
        writeln!(text, "[[switch]]\nname = 's{n}'").unwrap();
    }
    writeln!(text, "[[host]]\nname = 'ps'\nrole = 'server'\n[[link]]\nends = ['s0', 'ps']").unwrap();
    for n in 1..depth {
        writeln!(text, "[[link]]\nends = ['s{}', 's{n}']", n - 1).unwrap();
    }
    for n in 0..workers {
        writeln!(text, "[[host]]\nname = 'w{n}'\nrole = 'worker'").unwrap();
        writeln!(text, "[[link]]\nends = ['s{}', 'w{n}']", depth - 1).unwrap();
    }
    Topology::parse(&text, "chain.toml").unwrap()
}

fn planned(topology: &Topology, change: impl FnOnce(&mut JobRequest)) -> Result<Plan, PlanError> {
    let mut job = JobRequest::of(topology, 64, 1024).unwrap();
    change(&mut job);
    plan(topology, &FabricState::of(topology, 4096), &job)
}

#[test]
fn members_that_make_no_job() {
    let topology = chain(1, 3);
    let key = |name| topology.find(name).unwrap();
    let refused = |change: &dyn Fn(&mut JobRequest)| planned(&topology, change).unwrap_err();
    assert_eq!(refused(&|job| job.workers.clear()), PlanError::NoWorkers);
    assert_eq!(
        refused(&|job| job.workers.push(Member { rank: 3, host: key("w0") })),
        PlanError::DuplicateWorker("w0".into())
    );
    assert_eq!(refused(&|job| job.server = key("s0")), PlanError::NotAHost("s0".into()));
    assert_eq!(
        refused(&|job| job.workers.push(Member { rank: 3, host: NodeKey::new(99) })),
        PlanError::NoSuchNode(99)
    );
}

#[test]
fn a_network_with_more_hosts_than_a_switch_finds_is_planned_with_a_note() {
    let notes = |ports| {
        let text = FatTree::new(ports, 2).unwrap().to_toml("1 Gbit/s");
        planned(&Topology::parse(&text, "fat-tree.toml").unwrap(), |_| {}).unwrap().notes
    };
    let says_so = |notes: &[String]| notes.iter().any(|note| note.contains("MAC addresses"));
    assert!(!says_so(&notes(24)), "3,456 hosts");
    assert!(notes(26).iter().any(|note| note.starts_with("4394 hosts are more than the 4094")));
}

#[test]
fn a_worker_behind_a_plain_switch_cannot_be_the_server() {
    let text = "name = 'plain'\ndefaults = { rate = '1 Gbit/s' }
        switch = [{ name = 'a' }, { name = 'b', programmable = false }]
        host = [{ name = 'ps', role = 'server' }, { name = 'w0', role = 'worker' }, { name = 'w1', role = 'worker' }]
        link = [{ ends = ['a', 'b'] }, { ends = ['a', 'ps'] }, { ends = ['a', 'w0'] }, { ends = ['b', 'w1'] }]";
    let topology = Topology::parse(text, "plain.toml").unwrap();
    let served_by = |name| planned(&topology, |job| job.server = topology.find(name).unwrap());
    assert_eq!(served_by("w0").unwrap().server.name, "w0");
    let error = PlanError::WorkerServesBehindPlainSwitch { server: "w1".into(), switch: "b".into() };
    assert_eq!(served_by("w1").unwrap_err(), error);
}

#[test]
fn ranks_that_make_no_job() {
    let topology = chain(1, 3);
    let refused = |ranks: [u16; 3]| {
        let change = |job: &mut JobRequest| {
            job.workers.iter_mut().zip(ranks).for_each(|(worker, rank)| worker.rank = rank);
        };
        planned(&topology, change).unwrap_err()
    };
    assert_eq!(refused([0, 2, 1]), PlanError::RanksNotRising { rank: 1, before: 2 });
    assert_eq!(refused([0, 7, 7]), PlanError::RanksNotRising { rank: 7, before: 7 });
    assert_eq!(refused([0, 1, u16::MAX]), PlanError::BadRank(u16::MAX));
}

#[test]
fn sizes_that_make_no_job() {
    let topology = chain(1, 3);
    for window in [0, 3, 65] {
        let refused = planned(&topology, |job| job.window = window);
        assert_eq!(refused.unwrap_err(), PlanError::BadWindow(window));
    }
    assert_eq!(planned(&topology, |job| job.gradient_bytes = 0).unwrap_err(), PlanError::EmptyGradient);
    let huge = planned(&topology, |job| job.gradient_bytes = u64::MAX).unwrap();
    assert!(huge.traffic.seconds.is_finite());
}

#[test]
fn a_stack_has_8_entries() {
    assert_eq!(planned(&chain(7, 2), |_| ()).unwrap().workers[0].up.len(), 8);
    let error = planned(&chain(8, 2), |_| ()).unwrap_err();
    assert_eq!(error, PlanError::TooDeep { worker: "w0".into(), hops: 9 });
}

#[test]
fn a_node_tells_64_children_apart() {
    let wide = chain(1, 64);
    let plan = planned(&wide, |_| ()).unwrap();
    assert_eq!((plan.switches[0].fan_in, plan.server.fan_in), (64, 1));
    assert_eq!(plan.switches[0].admission[0].children, u64::MAX);
    assert_eq!(planned(&wide, |job| job.aggregation = Aggregation::None).unwrap().server.fan_in, 64);

    let error = planned(&chain(1, 65), |_| ()).unwrap_err();
    assert_eq!(error, PlanError::TooManyChildren { server: "ps".into(), children: 65 });
}

#[test]
fn a_switch_whose_bitmap_is_narrower_tells_fewer_apart() {
    let planned = |streams| {
        let topology = chain(1, streams);
        let state = FabricState { children: Some(32), ..FabricState::of(&topology, 4096) };
        let job = JobRequest::of(&topology, 64, 1 << 20).unwrap();
        plan(&topology, &state, &job).unwrap()
    };
    assert_eq!((planned(32).switches[0].fan_in, planned(32).server.fan_in), (32, 1));
    let passed = planned(33);
    assert_eq!((passed.switches[0].aggregate, passed.server.fan_in), (false, 33));
    let note =
        "33 streams meet at s0, which distinguishes at most 32: it forwards gradients without aggregation";
    assert!(passed.notes.iter().any(|said| said == note), "{:?}", passed.notes);
}

#[test]
fn a_chain_aggregates_once() {
    let plan = planned(&chain(3, 4), |_| ()).unwrap();
    let fan_ins: Vec<_> = plan.switches.iter().map(|switch| (switch.aggregate, switch.fan_in)).collect();
    assert_eq!(fan_ins, [(false, 0), (false, 0), (true, 4)], "nothing meets nearer to the server");
}

#[test]
fn who_cannot_reach_the_server_is_named() {
    let topology = chain(2, 2);
    let mut state = FabricState::of(&topology, 4096);
    let w1 = topology.find("w1").unwrap();
    state.dead_links.insert(topology.neighbours(w1)[0].link);
    let job = JobRequest::of(&topology, 64, 1024).unwrap();
    let error = plan(&topology, &state, &job).unwrap_err();
    assert_eq!(error, PlanError::Unreachable { worker: "w1".into(), server: "ps".into() });

    state.dead_links.clear();
    state.dead_nodes.insert(w1);
    assert_eq!(plan(&topology, &state, &job).unwrap_err(), error);
    state.dead_nodes = [job.server].into();
    assert!(matches!(plan(&topology, &state, &job), Err(PlanError::Unreachable { .. })));
}

#[test]
fn a_link_that_loses_the_packets_it_should_carry_is_named() {
    let topology = chain(2, 2);
    let mut state = FabricState::of(&topology, 4096);
    let (s0, s1) = (topology.find("s0").unwrap(), topology.find("s1").unwrap());
    let link = topology.neighbours(s0).into_iter().find(|via| via.node == s1).unwrap().link;
    let job = JobRequest::of(&topology, 64, 1024).unwrap();
    state.short_of_mtu.insert(link, job.width);
    let error = plan(&topology, &state, &job).unwrap_err().to_string();
    assert!(
        error
            .contains(r#"the link between "s0" and "s1" loses them, though its mtu in the topology is 1500"#),
        "{error}"
    );
}
