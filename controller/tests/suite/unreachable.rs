//! Tests of unreachable switches: the behaviour and the reports of the controller.

use std::time::Duration;

use crate::common::{Client, Member, config, connect, create, end, job, join_all, refusal, shipped, start};
use crate::switches::gate::Gate;
use crate::switches::{Switches, eventually};
use tonic::Code;
use tributary_api::v1;
use tributary_controller::{Controller, ControllerConfig, RunningController, SwitchAddress};
use tributary_topology::Topology;

/// A time limit that is too long for a test.
/// A caller that waits for this time has not noticed that the switch is unreachable, and the test does not end.
const FOREVER: Duration = Duration::from_secs(3600);

async fn controller(
    topology: Topology,
    switches: &Switches,
    switch_patience: Duration,
) -> (RunningController, Client) {
    let config = ControllerConfig { switches: switches.addresses(), switch_patience, ..config(topology) };
    let controller = Controller::start(config).await.unwrap();
    let client = connect(&controller).await;
    (controller, client)
}

async fn listed(client: &Client, name: &str) -> v1::Switch {
    let answer = client.clone().list_switches(v1::ListSwitchesRequest {}).await.unwrap();
    let mut switches = answer.into_inner().switches.into_iter();
    switches.find(|switch| switch.name == name).unwrap()
}

async fn is(client: &Client, name: &str, state: v1::SwitchState) {
    eventually(async || listed(client, name).await.state() == state).await;
}

async fn counters(client: &Client, name: &str) -> v1::SwitchCounters {
    let request = v1::GetCountersRequest { switches: vec![name.into()] };
    client.clone().get_counters(request).await.unwrap().into_inner().switches.remove(0)
}

async fn joined(client: &mut Client, request: v1::CreateJobRequest) -> (Vec<u8>, Vec<Member>) {
    let name = request.name.clone();
    let (token, plan) = create(client, request).await.unwrap();
    let mut members = join_all(client, &name, &token, &plan).await;
    for member in &mut members {
        member.started().await;
    }
    (token, members)
}

/// Returns a job whose workers are under the server's own leaf, so that it needs no other switch.
fn near(name: &str) -> v1::CreateJobRequest {
    v1::CreateJobRequest { workers: vec!["w0".into(), "w1".into()], ..job(name) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_is_made_right_before_anything_else_is_asked_of_it() {
    let topology = shipped("two-workers.toml");
    let mut switches = Switches::start(&topology).await;
    let patience = Duration::from_millis(200);
    let (_controller, client) = controller(topology, &switches, patience).await;
    is(&client, "leaf", v1::SwitchState::Up).await;
    let before = switches.read_all().await;

    // The switch is unreachable for longer than any caller waits, while its counters are requested continuously.
    switches.stop("leaf").await;
    eventually(async || {
        let leaf = listed(&client, "leaf").await;
        leaf.state() == v1::SwitchState::Unreachable && leaf.state_milliseconds > 1500
    })
    .await;
    let asking = tokio::spawn({
        let client = client.clone();
        async move {
            loop {
                counters(&client, "leaf").await;
            }
        }
    });
    switches.restart("leaf").await;
    eventually(async || counters(&client, "leaf").await.unreachable.is_none()).await;
    // Tables are restored when the counters can be read, because the controller writes the tables first.
    assert_eq!(switches.read_all().await, before);
    is(&client, "leaf", v1::SwitchState::Up).await;
    asking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_starts_and_works_without_a_switch_and_says_which() {
    let topology = shipped("leaf-spine-8.toml");
    let mut switches = Switches::start(&topology).await;
    let (_first, client) = start(topology.clone(), switches.addresses()).await;
    let bare = switches.read_all().await;
    let wanted = listed(&client, "leaf3").await.wanted_entries;
    switches.stop("leaf3").await;

    let (_controller, mut client) = controller(topology, &switches, FOREVER).await;
    let leaf3 = listed(&client, "leaf3").await;
    assert_eq!(leaf3.state(), v1::SwitchState::Unreachable);
    assert_eq!(leaf3.address, switches.addresses()["leaf3"].address);
    assert!(leaf3.reason.starts_with(&format!("no answer from {}", leaf3.address)), "{}", leaf3.reason);
    assert_eq!((leaf3.runs_our_program, leaf3.wanted_entries), (None, wanted));
    assert!(wanted > 0);
    let up = listed(&client, "leaf0").await;
    assert_eq!((up.state(), up.reason.as_str()), (v1::SwitchState::Up, ""));
    assert_eq!(up.runs_our_program, Some(true));
    let none = counters(&client, "leaf3").await;
    assert_eq!((none.unreachable.as_deref(), none.age_milliseconds), (Some(leaf3.reason.as_str()), None));
    let (slots, taken) = (up.slots, up.slots_taken);
    assert!(slots > 0 && taken == 0, "{taken} of {slots}");
    let (token, _members) = joined(&mut client, near("near")).await;
    let window = listed(&client, "leaf0").await.slots_taken;
    assert!((1..=slots).contains(&window), "{window} of {slots}");
    end(&mut client, "near", &token).await.unwrap();
    assert_eq!(listed(&client, "leaf0").await.slots_taken, 0);

    switches.restart("leaf3").await;
    is(&client, "leaf3", v1::SwitchState::Up).await;
    assert_eq!(switches.try_read("leaf3").await.unwrap(), bare["leaf3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_switch_holds_up_no_other_job_and_loses_what_its_jobs_held_when_it_is_back() {
    let topology = shipped("leaf-spine-8.toml");
    let mut switches = Switches::start(&topology).await;
    let (controller, mut client) = controller(topology, &switches, FOREVER).await;
    let bare = switches.read_all().await;
    let (far, _members) = joined(&mut client, job("far")).await;
    let with_job = switches.read_all().await;
    assert_ne!(with_job["leaf3"], bare["leaf3"]);
    switches.stop("leaf3").await;

    end(&mut client, "far", &far).await.unwrap();
    let (code, text) = refusal(create(&mut client, job("another")).await);
    assert_eq!(code, Code::Unavailable, "{text}");
    for name in ["near0", "near1"] {
        let (token, _members) = joined(&mut client, near(name)).await;
        end(&mut client, name, &token).await.unwrap();
    }
    assert_eq!(switches.try_read("leaf0").await.unwrap(), bare["leaf0"]);

    switches.restart("leaf3").await;
    is(&client, "leaf3", v1::SwitchState::Up).await;
    assert_eq!(switches.read_all().await, bare);
    // All slots of the switch are free again, too.
    let all = v1::CreateJobRequest { window: 4096, ..job("all") };
    let (_, plan) = create(&mut client, all).await.unwrap();
    assert!(plan.switches.iter().any(|switch| switch.name == "leaf3" && switch.aggregates), "{plan:?}");
    controller.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_says_nothing_any_more_is_noticed_and_its_last_counters_are_kept() {
    let topology = shipped("two-workers.toml");
    let switches = Switches::start(&topology).await;
    let gate = Gate::before(switches.addresses()["leaf"].address.parse().unwrap()).await;
    let device_id = switches.addresses()["leaf"].device_id;
    let address = SwitchAddress { address: gate.address().to_string(), device_id };
    let config = ControllerConfig {
        switches: [("leaf".to_owned(), address)].into(),
        switch_patience: FOREVER,
        ..config(topology)
    };
    let controller = Controller::start(config).await.unwrap();
    let client = connect(&controller).await;
    eventually(async || counters(&client, "leaf").await.unreachable.is_none()).await;
    let before = counters(&client, "leaf").await;
    assert!(!before.ports.is_empty());

    gate.set_open(false);
    let after = counters(&client, "leaf").await;
    assert!(after.unreachable.is_some(), "{after:?}");
    assert_eq!(after.ports, before.ports);
    is(&client, "leaf", v1::SwitchState::Unreachable).await;
    let reason = listed(&client, "leaf").await.reason;
    assert!(reason.contains("not answered") || reason.contains("no answer"), "{reason}");
    let unreachable = counters(&client, "leaf").await;
    assert!(unreachable.age_milliseconds > after.age_milliseconds, "{unreachable:?}");

    gate.set_open(true);
    eventually(async || counters(&client, "leaf").await.unreachable.is_none()).await;
    is(&client, "leaf", v1::SwitchState::Up).await;
}
