//! Tests of the jobs of groups of a job's processes, through the API, with embedded switches.

use std::path::Path;

use crate::common::{
    Client, Member, config, connect, create, end, eventually, job, join_all, list, refusal, shipped,
};
use crate::switches::Switches;
use tonic::Code;
use tributary_api::v1;
use tributary_controller::{Controller, ControllerConfig, Quotas, RunningController};

/// A controller with a running job of four hosts, each with two processes.
struct Parent {
    controller: RunningController,
    client: Client,
    token: Vec<u8>,
    members: Vec<Member>,
}

async fn controller(switches: &Switches, state: &Path, quotas: Quotas) -> (RunningController, Client) {
    let controller = Controller::start(ControllerConfig {
        switches: switches.addresses(),
        state: Some(state.to_owned()),
        quotas,
        ..config(shipped("two-leaves-4.toml"))
    });
    let controller = controller.await.unwrap();
    let client = connect(&controller).await;
    (controller, client)
}

async fn start(switches: &Switches, state: &Path, quotas: Quotas) -> Parent {
    let (controller, mut client) = controller(switches, state, quotas).await;
    let (token, plan) = create(&mut client, job("train")).await.unwrap();
    let mut members = Vec::new();
    for host in &plan.workers {
        let request = v1::JoinRequest {
            job: "train".into(),
            token: token.clone(),
            host: host.clone(),
            processes: 2,
            ..v1::JoinRequest::default()
        };
        members.push(Member::join_as(&mut client, request).await.unwrap());
    }
    members.push(Member::join(&mut client, "train", &token, &plan.server).await.unwrap());
    for member in &mut members {
        member.started().await;
    }
    Parent { controller, client, token, members }
}

async fn open(
    client: &mut Client,
    token: &[u8],
    (host, group): (&str, &str),
    ranks: &[u32],
) -> Result<String, tonic::Status> {
    let request = v1::OpenGroupRequest {
        job: "train".into(),
        token: token.to_vec(),
        host: host.into(),
        group: group.into(),
        ranks: ranks.to_vec(),
    };
    Ok(client.open_group(request).await?.into_inner().job)
}

async fn job_of(client: &mut Client, name: &str) -> v1::Job {
    list(client).await.into_iter().rfind(|job| job.name == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_group_gets_one_job_of_its_hosts_which_ends_with_the_job_of_all() {
    let switches = Switches::start(&shipped("two-leaves-4.toml")).await;
    let folder = tempfile::tempdir().unwrap();
    let Parent { mut client, token, mut members, controller: _controller } =
        start(&switches, folder.path(), Quotas::default()).await;
    // Rank 5 is the second process of w2. All processes of a group send the same ranks, in any order.
    let first = open(&mut client, &token, ("w0", "a"), &[0, 5]).await.unwrap();
    assert_eq!(open(&mut client, &token, ("w2", "a"), &[5, 0]).await.unwrap(), first);
    let second = open(&mut client, &token, ("w1", "b"), &[1, 3, 5, 7]).await.unwrap();
    assert_ne!(first, second);

    let plan = job_of(&mut client, &first).await.plan.unwrap();
    assert_eq!(plan.workers, ["w0", "w2"]);
    let plan_of_second = job_of(&mut client, &second).await.plan.unwrap();
    assert_eq!(plan_of_second.workers, ["w0", "w1", "w2", "w3"]);
    assert_eq!(job_of(&mut client, &second).await.group_of, "train");
    let mut of_group = join_all(&mut client, &first, &token, &plan).await;
    let secrets = [of_group[0].started().await, of_group[1].started().await].map(|config| config.ranks.len());
    assert_eq!(secrets, [2, 2]);

    end(&mut client, "train", &token).await.unwrap();
    for member in members.iter_mut().chain(&mut of_group[..2]) {
        member.ended().await;
    }
    let is_over = async || job_of(&mut client.clone(), &second).await.state() == v1::JobState::Ended;
    eventually(is_over).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_that_cannot_have_a_job_get_the_reason() {
    let switches = Switches::start(&shipped("two-leaves-4.toml")).await;
    let folder = tempfile::tempdir().unwrap();
    let quotas = Quotas { jobs: Some(2), ..Quotas::default() };
    let Parent { mut client, token, members: _members, controller: _controller } =
        start(&switches, folder.path(), quotas).await;
    let invalid: [(&str, &[u32], &str); 4] = [
        ("", &[0, 2], "1 to 64 bytes"),
        ("a", &[0, 1], "on one host"),
        ("a", &[], "on one host"),
        ("a", &[0, 8], "has no rank 8"),
    ];
    for (group, ranks, why) in invalid {
        let (code, text) = refusal(open(&mut client, &token, ("w0", group), ranks).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.contains(why), "{text}");
    }
    let refused = refusal(open(&mut client, b"wrong", ("w0", "a"), &[0, 2]).await);
    assert_eq!(refused.0, Code::PermissionDenied);
    assert_eq!(refusal(open(&mut client, &token, ("w9", "a"), &[0, 2]).await).0, Code::NotFound);

    let name = open(&mut client, &token, ("w0", "a"), &[0, 2]).await.unwrap();
    let (code, text) = refusal(open(&mut client, &token, ("w0", "a"), &[0, 4]).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains("the same ranks"), "{text}");
    let nested = v1::OpenGroupRequest {
        job: name,
        token: token.clone(),
        host: "w0".into(),
        group: "b".into(),
        ranks: vec![0, 1],
    };
    assert_eq!(refusal(client.open_group(nested).await).0, Code::FailedPrecondition);
    let (code, text) = refusal(open(&mut client, &token, ("w0", "b"), &[0, 4]).await);
    assert_eq!(code, Code::ResourceExhausted, "the quota is used up");
    assert!(text.contains("has 2 jobs"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_gets_fewer_slots_if_few_are_free() {
    let switches = Switches::start(&shipped("two-leaves-4.toml")).await;
    let folder = tempfile::tempdir().unwrap();
    let quotas = Quotas { slots: Some(448), ..Quotas::default() };
    let Parent { mut client, token, members: _members, controller: _controller } =
        start(&switches, folder.path(), quotas).await;
    let mut windows = Vec::new();
    for group in ["a", "b"] {
        let name = open(&mut client, &token, ("w0", group), &[0, 2, 4, 6]).await.unwrap();
        windows.push(job_of(&mut client, &name).await.plan.unwrap().window);
    }
    // The job of all ranks has 256 of the 448 slots.
    assert_eq!(windows, [128, 64]);
    let (code, text) = refusal(open(&mut client, &token, ("w0", "c"), &[0, 2, 4, 6]).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("64 slots needed"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_controller_knows_the_jobs_of_groups() {
    let switches = Switches::start(&shipped("two-leaves-4.toml")).await;
    let folder = tempfile::tempdir().unwrap();
    let Parent { controller: first, mut client, token, members } =
        start(&switches, folder.path(), Quotas::default()).await;
    let name = open(&mut client, &token, ("w0", "a"), &[0, 4]).await.unwrap();
    first.shutdown().await.unwrap();
    drop(members);

    let (_controller, mut client) = controller(&switches, folder.path(), Quotas::default()).await;
    assert_eq!(job_of(&mut client, &name).await.group_of, "train");
    end(&mut client, "train", &token).await.unwrap();
    let is_over = async || job_of(&mut client.clone(), &name).await.state() == v1::JobState::Ended;
    eventually(is_over).await;
}
