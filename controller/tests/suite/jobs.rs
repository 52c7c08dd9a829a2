//! Tests of the life of jobs from the view of members, through the API.
//! The network's switches only forward, so that the tests need no running switch.

use std::collections::BTreeMap;

use crate::common::{Client, Member, create, end, eventually, job, join_all, list, refusal, start};
use tonic::{Code, Status};
use tributary_api::{Downlink, Role, v1};
use tributary_controller::RunningController;
use tributary_testkit::PLAIN;
use tributary_topology::Topology;
use tributary_wire::Rank;

async fn plain() -> (RunningController, Client) {
    start(Topology::parse(PLAIN, "plain").unwrap(), BTreeMap::new()).await
}

/// Starts a job with all of its members.
async fn running(client: &mut Client, request: v1::CreateJobRequest) -> (Vec<u8>, Vec<Member>) {
    let name = request.name.clone();
    let (token, plan) = create(client, request).await.unwrap();
    let mut members = join_all(client, &name, &token, &plan).await;
    for member in &mut members {
        member.started().await;
    }
    (token, members)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_from_its_creation_to_its_end() {
    let (controller, mut client) = plain().await;
    let (token, plan) = create(&mut client, job("digits")).await.unwrap();
    assert_eq!((token.len(), plan.server_fan_in, plan.workers.len()), (32, 2, 2));
    assert!(!plan.notes.is_empty(), "a plan that gains nothing says so");
    let state = |jobs: Vec<v1::Job>| jobs[0].state();

    let mut w0 = Member::join(&mut client, "digits", &token, "w0").await.unwrap();
    let mut ps = Member::join(&mut client, "digits", &token, "ps").await.unwrap();
    let jobs = list(&mut client).await;
    assert_eq!((jobs[0].state(), &jobs[0].waiting_for[..]), (v1::JobState::Created, &["w1".to_owned()][..]));
    let mut w1 = Member::join(&mut client, "digits", &token, "w1").await.unwrap();

    let (c0, c1, cs) = (w0.started().await, w1.started().await, ps.started().await);
    assert_eq!(state(list(&mut client).await), v1::JobState::Running);
    assert_eq!((c0.job, c0.job, c0.window), (c1.job, cs.job, cs.window));
    assert_eq!(c0.downlink, Downlink::Unicast, "a plain switch cannot multicast");
    let Role::Server { fan_in: 2, node, down, .. } = cs.role else { panic!("{cs:?}") };
    for (rank, config) in [&c0, &c1].into_iter().enumerate() {
        let Role::Worker { rank: own, up, .. } = &config.role else { panic!("{config:?}") };
        assert_eq!((usize::from(own.get()), up.len(), up[0].node), (rank, 1, node));
        assert_eq!((down[rank].rank, down[rank].worker, config.server), (*own, config.own, cs.own));
        assert!(down[rank].hops.is_empty());
    }

    end(&mut client, "digits", &token).await.unwrap();
    for member in [&mut w0, &mut w1, &mut ps] {
        member.ended().await;
    }
    assert_eq!(state(list(&mut client).await), v1::JobState::Ended);
    end(&mut client, "digits", &token).await.unwrap();
    controller.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_join_is_told_why() {
    let (_controller, mut client) = plain().await;
    let (token, _) = create(&mut client, job("digits")).await.unwrap();
    let _w0 = Member::join(&mut client, "digits", &token, "w0").await.unwrap();
    let mut near = token.clone();
    near[31] ^= 1;
    let cases: [(&str, &[u8], &str, Code, &str); 5] = [
        ("other", &token, "w1", Code::NotFound, "there is no job \"other\""),
        ("digits", &near, "w1", Code::PermissionDenied, "wrong token for job \"digits\""),
        ("digits", &[], "w1", Code::PermissionDenied, "no token was given for job \"digits\""),
        ("digits", &token, "hub", Code::NotFound, "host \"hub\" is not a member of job \"digits\""),
        ("digits", &token, "w0", Code::AlreadyExists, "host \"w0\" has joined job \"digits\" already"),
    ];
    for (job, token, host, code, message) in cases {
        let (got, text) = refusal(Member::join(&mut client, job, token, host).await);
        assert_eq!(got, code, "{text}");
        assert!(text.starts_with(message), "{text}");
    }
    assert_eq!(refusal(end(&mut client, "digits", &near).await).0, Code::PermissionDenied);
    end(&mut client, "digits", &token).await.unwrap();
    let (code, text) = refusal(Member::join(&mut client, "digits", &token, "w1").await);
    assert_eq!(
        (code, text.as_str()),
        (Code::FailedPrecondition, "job \"digits\" is over: it has ended; create a job for another run")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_be_is_refused() {
    let (_controller, mut client) = plain().await;
    create(&mut client, job("digits")).await.unwrap();
    let refused = async |request: v1::CreateJobRequest| {
        let mut client = client.clone();
        refusal(create(&mut client, request).await)
    };
    assert_eq!(refused(job("digits")).await.0, Code::AlreadyExists);
    assert_eq!(refused(job("")).await.0, Code::InvalidArgument);
    let (code, text) = refused(v1::CreateJobRequest { server: "hub".into(), ..job("a") }).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains("\"hub\" is a switch"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rigid_job_fails_with_a_member_and_names_the_host() {
    let (_controller, mut client) = plain().await;
    let (token, mut members) =
        running(&mut client, v1::CreateJobRequest { rigid: true, ..job("digits") }).await;
    drop(members.remove(1));
    for member in &mut members {
        assert_eq!(member.failed().await, "w1 is gone");
    }
    let failed = &list(&mut client).await[0];
    assert_eq!((failed.state(), failed.reason.as_str()), (v1::JobState::Failed, "w1 is gone"));
    // The name is free again, and the new job has its own token and id.
    let (new, plan) = create(&mut client, job("digits")).await.unwrap();
    assert_ne!(token, new);
    assert_eq!(refusal(Member::join(&mut client, "digits", &token, "w0").await).0, Code::PermissionDenied);
    join_all(&mut client, "digits", &new, &plan).await[0].started().await;
    let jobs = list(&mut client).await;
    assert_ne!(jobs[0].job_id, jobs[1].job_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_goes_before_the_start_is_waited_for_again() {
    let (_controller, mut client) = plain().await;
    let (token, plan) = create(&mut client, job("digits")).await.unwrap();
    drop(Member::join(&mut client, "digits", &token, "ps").await.unwrap());
    eventually(async || list(&mut client.clone()).await[0].waiting_for.contains(&"ps".to_owned())).await;
    let mut members = join_all(&mut client, "digits", &token, &plan).await;
    members[0].started().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_members_do_not_come_ends_with_its_deadline() {
    let (_controller, mut client) = plain().await;
    let request = v1::CreateJobRequest { join_deadline_milliseconds: 200, ..job("digits") };
    let (token, _) = create(&mut client, request).await.unwrap();
    let mut w0 = Member::join(&mut client, "digits", &token, "w0").await.unwrap();
    assert_eq!(w0.failed().await, "w1, ps did not join within 200ms of its creation");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_fails_the_job_and_a_leave_does_not() {
    let (_controller, mut client) = plain().await;
    let (token, mut members) = running(&mut client, job("first")).await;
    let report = |job: &str, token: &[u8], host: &str| v1::ReportFaultRequest {
        job: job.into(),
        token: token.to_vec(),
        host: host.into(),
        description: "check mismatch in slice 7".into(),
        given: None,
    };
    assert_eq!(refusal(client.report_fault(report("first", b"guess", "w0")).await).0, Code::PermissionDenied);
    assert_eq!(refusal(client.report_fault(report("first", &token, "w9")).await).0, Code::NotFound);
    client.report_fault(report("first", &token, "w0")).await.unwrap();
    for member in &mut members {
        assert_eq!(member.failed().await, "host \"w0\" reported a fault: check mismatch in slice 7");
    }

    let (token, mut members) = running(&mut client, job("second")).await;
    let reason = "the trainer was stopped".to_owned();
    let leave =
        v1::LeaveRequest { job: "second".into(), token, host: "w1".into(), reason, role: 0, at_end: false };
    client.leave(leave).await.unwrap();
    let (w0, ps) = (members[0].changed().await, members[2].changed().await);
    assert_eq!((w0.generation, ps.generation), (2, 2));
    assert_eq!((w0.ranks, ps.ranks), (vec![Rank::new(0)], vec![Rank::new(0)]));
    let listed = list(&mut client).await;
    assert_eq!((listed[1].state(), listed[1].generation), (v1::JobState::Running, 2));
    assert_eq!(listed[1].last_change, "w1 is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_give_different_things_are_all_told_who_gave_what() {
    let (_controller, client) = plain().await;
    let (token, mut members) = running(&mut client.clone(), job("digits")).await;
    let report = async |host: &str, tensor: &str| {
        let tensor = tensor.to_owned();
        let given = v1::GivenOperation { first_seq: 1, tensor, elements: 10, element_type: "f32".into() };
        let (job, token, host) = ("digits".into(), token.clone(), host.to_owned());
        let (description, given) = ("a wrong sum".into(), Some(given));
        let request = v1::ReportFaultRequest { job, token, host, description, given };
        Ok::<_, Status>(client.clone().report_fault(request).await?.into_inner().verdict)
    };
    assert_eq!(report("ps", "bias").await.unwrap_err().code(), Code::NotFound, "it gives nothing");
    let (first, second) = tokio::join!(report("w0", "bias"), report("w1", "weight"));
    let verdict = first.unwrap();
    assert_eq!(second.unwrap(), verdict);
    let words = "rank 0 (w0) gave \"bias\" with 10 elements of f32; rank 1 (w1) gave \"weight\" with 10";
    assert!(verdict.contains(words), "{verdict}");
    for member in &mut members {
        assert_eq!(member.failed().await, verdict);
    }
    assert_eq!(report("w1", "another").await.unwrap(), verdict, "what is found later does not matter");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_tells_the_members() {
    let (controller, mut client) = plain().await;
    let (_, mut members) = running(&mut client, job("digits")).await;
    controller.shutdown().await.unwrap();
    for member in &mut members {
        assert_eq!(member.failed().await, "the controller was shut down");
    }
    // The code depends on whether the request was still sent on the old connection.
    let code = refusal(client.list_jobs(v1::ListJobsRequest {}).await).0;
    assert!(matches!(code, Code::Unavailable | Code::Cancelled), "{code:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_controller_tells_the_members_too() {
    let (controller, mut client) = plain().await;
    let (_, mut members) = running(&mut client, job("digits")).await;
    drop(controller);
    assert_eq!(members[0].failed().await, "the controller was shut down");
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_processes_take_their_job_up_again_until_its_owner_ends_it() {
    let (_controller, client) = plain().await;
    let (token, mut members) = running(&mut client.clone(), job("digits")).await;
    let begin = async |host: &str| {
        let (job, token, host) = ("digits".to_owned(), token.clone(), host.to_owned());
        let request = v1::JoinRequest { job, token, host, new_run: true, ..v1::JoinRequest::default() };
        Member::join_as(&mut client.clone(), request).await
    };
    let leave = async |host: &str| {
        let (job, token, host) = ("digits".to_owned(), token.clone(), host.to_owned());
        let leave = v1::LeaveRequest { job, token, host, ..v1::LeaveRequest::default() };
        client.clone().leave(leave).await.unwrap();
    };
    let states = async || list(&mut client.clone()).await.iter().map(v1::Job::state).collect::<Vec<_>>();

    leave("w0").await;
    members[1].changed().await;
    // A process of the first run is still a member.
    let (w0, w1) = tokio::join!(begin("w0"), async {
        assert_eq!(states().await, [v1::JobState::Running]);
        leave("w1").await;
        begin("w1").await
    });
    let mut second = vec![w0.unwrap(), w1.unwrap()];
    second.push(Member::join(&mut client.clone(), "digits", &token, "ps").await.unwrap());
    let first = members[2].changed().await;
    for member in &mut second {
        let config = member.started().await;
        assert_eq!((config.generation, config.ranks.len()), (1, 2));
        assert_ne!(config.job, first.job, "the slices of the first run are useless");
    }
    assert_eq!(states().await, [v1::JobState::Failed, v1::JobState::Running]);

    end(&mut client.clone(), "digits", &token).await.unwrap();
    let (code, message) = refusal(begin("w0").await);
    assert_eq!(code, Code::FailedPrecondition);
    assert!(
        message.contains("job \"digits\" is over: it has ended; create a job for another run"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_bring_their_numbers_of_processes_to_each_run_of_a_job() {
    let (_controller, client) = plain().await;
    let (token, _) = create(&mut client.clone(), job("digits")).await.unwrap();
    let begin = async |host: &str, processes: u32| {
        let (job, token, host) = ("digits".to_owned(), token.clone(), host.to_owned());
        let request = v1::JoinRequest {
            job,
            token,
            host,
            elastic: true,
            new_run: true,
            processes,
            ..v1::JoinRequest::default()
        };
        Member::join_as(&mut client.clone(), request).await
    };
    let counts = async |members: &mut [Member]| {
        for member in &mut *members {
            member.started().await;
        }
        let jobs = list(&mut client.clone()).await;
        let job = jobs.into_iter().next_back().unwrap();
        job.members.iter().map(|member| member.processes).collect::<Vec<_>>()
    };
    let (code, text) = refusal(begin("w0", 1 << 16).await);
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "65536 training processes on a host: a job may have 1 to 65535");
    let mut first = vec![begin("w0", 4).await.unwrap(), begin("w1", 0).await.unwrap()];
    let mut server = Member::join(&mut client.clone(), "digits", &token, "ps").await.unwrap();
    let config = server.started().await;
    assert_eq!(config.processes.counts().collect::<Vec<_>>(), [4, 1]);
    assert_eq!(counts(&mut first).await, [4, 1, 0]);

    // The launcher starts the processes again, with other numbers. The first host waits for the end of the last run.
    let leave = async |host: &str| {
        let (job, token, host) = ("digits".to_owned(), token.clone(), host.to_owned());
        let leave = v1::LeaveRequest { job, token, host, ..v1::LeaveRequest::default() };
        client.clone().leave(leave).await.unwrap();
    };
    leave("w0").await;
    let (w0, w1) = tokio::join!(begin("w0", 2), async {
        first[1].changed().await;
        leave("w1").await;
        begin("w1", 3).await
    });
    let mut second = vec![w0.unwrap(), w1.unwrap()];
    second.push(Member::join(&mut client.clone(), "digits", &token, "ps").await.unwrap());
    assert_eq!(counts(&mut second).await, [2, 3, 0]);
}
