//! Tests of jobs that wait for slots or for a switch, through the API, with an embedded switch.

use std::path::Path;

use crate::common::{
    Client, config, connect, create, end, eventually, is_away, job, join_all, list, refusal, shipped,
};
use crate::switches::Switches;
use tonic::Code;
use tributary_api::v1;
use tributary_controller::{Controller, ControllerConfig, Quotas, RunningController};

async fn start(switches: &Switches, state: Option<&Path>, quotas: Quotas) -> (RunningController, Client) {
    let controller = Controller::start(ControllerConfig {
        switches: switches.addresses(),
        state: state.map(Path::to_owned),
        quotas,
        ..config(shipped("two-workers.toml"))
    });
    let controller = controller.await.unwrap();
    let client = connect(&controller).await;
    (controller, client)
}

/// Returns a job that needs all slots of a switch.
fn big(name: &str) -> v1::CreateJobRequest {
    v1::CreateJobRequest { window: 4096, wait: true, ..job(name) }
}

/// Waits until a job is in the given state.
async fn is(client: &Client, name: &str, state: v1::JobState) {
    let now = async || {
        let jobs = list(&mut client.clone()).await;
        jobs.iter().any(|job| job.name == name && job.state() == state)
    };
    eventually(now).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_starts_when_another_has_ended() {
    let switches = Switches::start(&shipped("two-workers.toml")).await;
    let (_controller, mut client) = start(&switches, None, Quotas::default()).await;
    let (first, _) = create(&mut client, big("first")).await.unwrap();
    let queued = client.create_job(big("second")).await.unwrap().into_inner();
    assert!(queued.queued);
    let second = &list(&mut client).await[1];
    assert_eq!((second.state(), second.creator.as_str()), (v1::JobState::Queued, "local"));
    assert!(second.waiting_for[0].starts_with("slots (leaf: 4096 slots needed"), "{:?}", second.waiting_for);
    // The job's members may join before the job has slots.
    let plan = queued.plan.unwrap();
    let mut members = join_all(&mut client, "second", &queued.token, &plan).await;
    is(&client, "second", v1::JobState::Queued).await;
    end(&mut client, "first", &first).await.unwrap();
    for member in &mut members {
        member.started().await;
    }
    let second = &list(&mut client).await[1];
    let aggregates = second.plan.as_ref().unwrap().switches[0].aggregates;
    assert!(aggregates && second.fallbacks.is_empty(), "{second:?}");
    let (third, _) = create(&mut client, big("third")).await.unwrap();
    end(&mut client, "third", &third).await.unwrap();
    is(&client, "third", v1::JobState::Ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_behind_a_dead_switch_starts_when_it_is_back() {
    let mut switches = Switches::start(&shipped("two-workers.toml")).await;
    let (_controller, mut client) = start(&switches, None, Quotas::default()).await;
    switches.stop("leaf").await;
    is_away(&client, "leaf").await;
    let early = v1::CreateJobRequest { wait: true, ..job("early") };
    assert!(client.create_job(early).await.unwrap().into_inner().queued);
    let jobs = list(&mut client).await;
    let waits = &jobs.last().unwrap().waiting_for;
    assert_eq!(waits[0], "what is dead at the moment: switch leaf", "{jobs:?}");
    switches.restart("leaf").await;
    is(&client, "early", v1::JobState::Created).await;
    // A job that needs a host outside the topology is refused, because no returning switch can help it.
    let stranger = v1::CreateJobRequest { wait: true, server: "w9".into(), ..job("stranger") };
    assert_eq!(refusal(create(&mut client, stranger).await).0, Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_outlives_the_controller_and_ends_with_a_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::start(&shipped("two-workers.toml")).await;
    let (controller, mut client) = start(&switches, Some(folder.path()), Quotas::default()).await;
    let (first, _) = create(&mut client, big("first")).await.unwrap();
    create(&mut client, big("second")).await.unwrap();
    let hasty = v1::CreateJobRequest { join_deadline_milliseconds: 300, ..big("hasty") };
    create(&mut client, hasty).await.unwrap();
    is(&client, "hasty", v1::JobState::Failed).await;
    let jobs = list(&mut client).await;
    assert!(jobs[2].reason.starts_with("it has waited 300ms for slots (leaf: "), "{}", jobs[2].reason);
    controller.shutdown().await.unwrap();

    let (_controller, mut client) = start(&switches, Some(folder.path()), Quotas::default()).await;
    is(&client, "second", v1::JobState::Queued).await;
    end(&mut client, "first", &first).await.unwrap();
    is(&client, "second", v1::JobState::Created).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creator_that_has_as_much_as_it_may_have_is_told() {
    let switches = Switches::start(&shipped("two-workers.toml")).await;
    let quotas = Quotas { jobs: Some(1), slots: Some(256), queue: 0 };
    let (_controller, mut client) = start(&switches, None, quotas).await;
    let (code, text) = refusal(create(&mut client, big("large")).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("more than \"local\" may have on a switch, which is 256"), "{text}");
    let (token, _) = create(&mut client, job("first")).await.unwrap();
    let (code, text) = refusal(create(&mut client, job("second")).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("\"local\" has 1 jobs"), "{text}");
    end(&mut client, "first", &token).await.unwrap();
    create(&mut client, job("second")).await.unwrap();
}
