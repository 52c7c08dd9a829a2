//! Tests of a job that continues without a slow process and later takes it back.
//! The tests act as the job's members and hosts.

use std::collections::BTreeMap;

use crate::common::{Client, Member, create, eventually, job, start};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::host_report::Report;
use tributary_api::v1::job_event::Event;
use tributary_api::{JobConfig, JobCredentials, v1};
use tributary_controller::RunningController;
use tributary_testkit::PLAIN;
use tributary_topology::Topology;
use tributary_wire::Rank;

const WINDOW: u32 = 4;
/// The number of steps in a report. It exceeds the number that is necessary to judge a process.
const STEPS: usize = 12;

/// A host with a training process, and its daemon's stream to the controller.
struct Host {
    member: Member,
    reports: mpsc::Sender<v1::HostReport>,
    _orders: Streaming<v1::HostOrder>,
    steps: u64,
}

struct Net {
    _controller: RunningController,
    client: Client,
    token: Vec<u8>,
    hosts: BTreeMap<&'static str, Host>,
    server: Member,
}

/// Starts a job of two workers on a switch that only forwards, with this θ.
/// Without θ, the job does not act on degraded processes.
async fn running(theta: Option<f64>) -> Net {
    let (controller, mut client) = start(Topology::parse(PLAIN, "plain").unwrap(), BTreeMap::new()).await;
    let degraded = if theta.is_some() { v1::Degraded::Auto } else { v1::Degraded::Unspecified };
    let request = v1::CreateJobRequest { window: WINDOW, degraded: degraded.into(), theta, ..job("digits") };
    let (token, _) = create(&mut client, request).await.unwrap();
    let mut hosts = BTreeMap::new();
    for host in ["w0", "w1"] {
        let member = join(&mut client, &token, host, 0).await;
        let (reports, stream) = mpsc::channel(STEPS);
        let hello = v1::Hello { host: host.into(), works: true, ..v1::Hello::default() };
        reports.send(v1::HostReport { report: Some(Report::Hello(hello)) }).await.unwrap();
        let orders = client.open_session(ReceiverStream::new(stream)).await.unwrap().into_inner();
        hosts.insert(host, Host { member, reports, _orders: orders, steps: 0 });
    }
    let mut server = join(&mut client, &token, "ps", 0).await;
    for host in hosts.values_mut() {
        host.member.started().await;
    }
    server.started().await;
    Net { _controller: controller, client, token, hosts, server }
}

async fn join(client: &mut Client, token: &[u8], host: &str, resume: u32) -> Member {
    let request = v1::JoinRequest {
        job: "digits".into(),
        token: token.to_vec(),
        host: host.into(),
        elastic: host != "ps",
        resume_generation: resume,
        ..v1::JoinRequest::default()
    };
    Member::join_as(client, request).await.unwrap()
}

impl Net {
    fn member(&mut self, host: &str) -> &mut Member {
        &mut self.hosts.get_mut(host).unwrap().member
    }

    /// Reports `STEPS` steps of a process, each with these samples and milliseconds.
    /// Returns after the controller has processed the report, so that later reports arrive later.
    async fn report(&mut self, name: &str, samples: u32, milliseconds: u64) {
        let host = self.hosts.get_mut(name).unwrap();
        host.steps += STEPS as u64;
        let step = v1::TrainingStep {
            samples,
            compute_nanoseconds: milliseconds * 1_000_000,
            reduce_nanoseconds: Some(10_000_000),
        };
        let progress = v1::JobProgress {
            job: "digits".into(),
            steps: host.steps,
            last_steps: vec![step; STEPS],
            ..v1::JobProgress::default()
        };
        let heartbeat = v1::Heartbeat { jobs: vec![progress], ..v1::Heartbeat::default() };
        host.reports.send(v1::HostReport { report: Some(Report::Heartbeat(heartbeat)) }).await.unwrap();
        let steps = host.steps;
        let knows = |explained: &v1::ExplainJobResponse| {
            explained.processes.iter().any(|process| process.host == name && process.steps == steps)
        };
        self.explained_once(knows).await;
    }

    async fn answer(&mut self, host: &str, generation: u32, answer: Answer) {
        let credentials = JobCredentials { job: "digits".into(), token: self.token.clone() };
        let request = v1::AnswerRequest {
            host: host.into(),
            role: v1::MemberRole::Unspecified.into(),
            generation,
            answer: Some(answer),
        };
        self.client.answer(credentials.onto(request)).await.unwrap();
    }

    /// Waits until a worker must stop for a change, and stops it at the beginning of an operation.
    async fn stop(&mut self, host: &str, begun: u64, next_seq: u32) {
        let Some(Event::Prepare(prepare)) = self.member(host).next().await else {
            panic!("{host}: not asked")
        };
        let progress = v1::WorkerProgress {
            begun,
            next_seqs: vec![next_seq],
            idle: true,
            dues: vec![next_seq; WINDOW as usize],
        };
        self.answer(host, prepare.generation, Answer::Progress(progress)).await;
    }

    /// Lets a remaining worker and the server change to the next generation. Returns the worker's
    /// configuration.
    async fn change(&mut self, host: &str) -> JobConfig {
        let of_server = self.server.changed().await;
        self.answer("ps", of_server.generation, Answer::Changed(v1::Changed {})).await;
        let config = self.member(host).changed().await;
        self.answer(host, config.generation, Answer::Changed(v1::Changed {})).await;
        config
    }

    async fn explain(&self) -> v1::ExplainJobResponse {
        let request = v1::ExplainJobRequest { job: "digits".into() };
        self.client.clone().explain_job(request).await.unwrap().into_inner()
    }
}

fn ranks(numbers: &[u16]) -> Vec<Rank> {
    numbers.iter().copied().map(Rank::new).collect()
}

/// Makes w1 four times as slow, so that the job continues without it.
///
/// Returns the configuration that w0 receives and the event that w1 receives.
async fn detached(net: &mut Net) -> (JobConfig, v1::JobDetached) {
    net.report("w0", 16, 100).await;
    net.report("w1", 16, 400).await;
    net.stop("w0", 7, 50).await;
    let config = net.change("w0").await;
    match net.member("w1").next().await {
        Some(Event::Detached(detached)) => (config, detached),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn its_data_are_the_others_above_theta_and_it_comes_back_when_it_is_well() {
    let mut net = running(Some(0.49)).await;
    let (config, detached) = detached(&mut net).await;
    assert_eq!(config.reason, detached.reason);
    assert_eq!((config.generation, config.ranks, config.joined), (2, ranks(&[0]), ranks(&[])));
    assert_eq!((config.regroup, config.adopted), (true, ranks(&[1])));
    let reason = "degraded: w1 (shrink, the others process their data, too)";
    assert_eq!(detached, v1::JobDetached { generation: 2, data_adopted: true, reason: reason.into() });

    let explained = net.explain().await;
    assert_eq!(
        (explained.mode(), explained.mode_by_theta()),
        (v1::DegradedMode::Shrink, v1::DegradedMode::Shrink)
    );
    assert_eq!((explained.degraded_processes, explained.processes.len()), (1, 2));
    let slow = &explained.processes[1];
    assert!(slow.host == "w1" && slow.detached && slow.degraded && slow.ratio > Some(3.5), "{slow:?}");
    let change = explained.last_change.unwrap();
    assert_eq!((change.generation, &*change.reason), (2, reason));
    // w0 does the work of two processes: it has twice the samples, and the time of the all-reduce.
    assert!((change.predicted_seconds - 0.21).abs() < 1e-6, "{change:?}");
    assert!(change.before_seconds > 0.35, "{change:?}");

    // w1 continues to make steps, and w0 makes larger steps.
    net.report("w0", 32, 200).await;
    // w1's earlier times still count for a while, so one report is not enough.
    net.report("w1", 16, 100).await;
    net.report("w1", 16, 100).await;
    net.stop("w0", 30, 400).await;
    let config = net.change("w0").await;
    assert_eq!((config.generation, config.ranks, config.joined), (3, ranks(&[0, 1]), ranks(&[1])));
    assert_eq!((config.regroup, config.adopted), (true, ranks(&[])));
    let config = net.member("w1").started().await;
    assert_eq!((config.begun, config.start_seqs[0].0, config.joined), (30, 400, ranks(&[1])));
    assert_eq!(net.explain().await.mode(), v1::DegradedMode::Unspecified);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_processes_its_data_up_to_theta() {
    let mut net = running(Some(0.5)).await;
    let (config, detached) = detached(&mut net).await;
    assert_eq!((config.ranks, config.regroup, config.adopted), (ranks(&[0]), true, ranks(&[])));
    assert!(!detached.data_adopted && detached.reason.contains("detach, nobody"), "{}", detached.reason);
    let change = net.explain().await.last_change.unwrap();
    assert!((change.predicted_seconds - 0.11).abs() < 1e-6, "{change:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_detached_is_told_again_when_its_connection_comes_back_and_a_new_process_comes_in() {
    let mut net = running(Some(0.5)).await;
    let (_, told) = detached(&mut net).await;
    let (client, token) = (&mut net.client.clone(), net.token.clone());
    *net.member("w1") = join(client, &token, "w1", 1).await;
    assert_eq!(net.member("w1").next().await, Some(Event::Detached(told)));
    // The process on w1 ends, and another process replaces it. The controller judges that process from its own steps.
    let leave = v1::LeaveRequest {
        job: "digits".into(),
        token: token.clone(),
        host: "w1".into(),
        reason: String::new(),
        role: v1::MemberRole::Worker.into(),
        at_end: false,
    };
    client.leave(leave).await.unwrap();
    *net.member("w1") = join(client, &token, "w1", 0).await;
    net.stop("w0", 9, 60).await;
    assert_eq!(net.change("w0").await.joined, ranks(&[1]));
    net.member("w1").started().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_members_leave_at_the_end_of_their_training_the_job_has_ended_for_one_that_is_detached_too()
{
    for at_end in [true, false] {
        let mut net = running(Some(0.5)).await;
        detached(&mut net).await;
        let (job, host, token) = ("digits".into(), "w0".into(), net.token.clone());
        let leave = v1::LeaveRequest { job, host, token, at_end, ..v1::LeaveRequest::default() };
        net.client.leave(leave).await.unwrap();
        match net.member("w1").next().await {
            Some(Event::Ended(_)) => assert!(at_end),
            Some(Event::Failed(failed)) => {
                assert!(!at_end && failed.reason.contains("w0 is gone"), "{failed:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_done_unless_it_is_asked_for_and_what_would_be_is_explained() {
    let mut net = running(None).await;
    let unmeasured = async |net: &Net, who: &str| {
        let verdict = net.explain().await.verdict;
        assert!(verdict.starts_with(&format!("{who} not made enough steps")), "{verdict}");
    };
    unmeasured(&net, "w0, w1 have").await;
    net.report("w0", 16, 100).await;
    unmeasured(&net, "w1 has").await;
    net.report("w1", 16, 400).await;
    let explained = net.explained_once(|explained| explained.degraded_processes == 1).await;
    assert_eq!((explained.degraded(), explained.theta, explained.generation), (v1::Degraded::Off, 0.1, 1));
    assert!(
        explained
            .verdict
            .starts_with("nothing is done, since the job was created with --degraded off; else: 1 of 2"),
        "{}",
        explained.verdict
    );
    let best = &explained.candidates[explained.best.unwrap() as usize];
    assert_eq!((&*best.members, best.mode(), best.eligible), (&[0][..], v1::DegradedMode::Shrink, true));
    let everyone = &explained.candidates[0];
    assert_eq!((everyone.members.len(), everyone.mode()), (2, v1::DegradedMode::Unspecified));
}

impl Net {
    /// Waits until the explanation of the job satisfies `holds`, and returns it.
    async fn explained_once(
        &self,
        holds: impl Fn(&v1::ExplainJobResponse) -> bool,
    ) -> v1::ExplainJobResponse {
        eventually(async || holds(&self.explain().await)).await;
        self.explain().await
    }
}
