//! An agent that is stopped or does not accept connections. Waiting callers receive reports, and
//! their deadlines are kept.

use std::time::Duration;

use crate::agent::{Agent, MEMBERS};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tributary_client::{
    ClientError, Job, JoinOptions, Observer, Operation, Segment, TrainingOptions, Waiting,
};

const DEADLINE: Duration = Duration::from_secs(5);

/// Much longer than a deadline and the agent's time to report itself that it has passed.
const LONG: Duration = Duration::from_secs(60);

type Told = mpsc::UnboundedReceiver<Waiting>;

fn told() -> (JoinOptions, Told) {
    let (tell, told) = mpsc::unbounded_channel::<Waiting>();
    (JoinOptions::default().on_waiting(move |waiting| drop(tell.send(waiting.clone()))), told)
}

/// Returns the times, in seconds, of the reports that the agent is silent.
fn seconds(told: &mut Told) -> Vec<u64> {
    let mut seconds = Vec::new();
    while let Ok(Waiting { what, time, agent_is_silent }) = told.try_recv() {
        assert!(agent_is_silent, "{what}");
        let silent = format!("agent.sock, which has said nothing for {} s", time.as_secs());
        assert!(what.starts_with("the agent at ") && what.contains(&silent), "{what}");
        seconds.push(time.as_secs());
    }
    seconds
}

async fn join(agent: &Agent, options: JoinOptions) -> Job {
    let agent = tributary_client::Agent::connect(agent.socket()).await.unwrap();
    agent.join_with("job", vec![], options).await.unwrap()
}

async fn segment(job: &Job) -> Segment {
    let mut segment = job.segment(8).await.unwrap();
    segment.elements_mut::<i32>().unwrap().fill(1);
    segment
}

fn operation(deadline: Option<Duration>) -> Operation<'static> {
    Operation { name: "layer 3", deadline, ..Operation::whole::<i32>() }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_joins_is_told_and_goes_on_waiting() {
    // Connections are opened but never accepted, as if the agent had no descriptor left.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("agent.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let (options, mut told) = told();
    let agent = tributary_client::Agent::connect(&socket).await.unwrap();
    // The deadline applies to all-reduces and not to the join, because the time that other members take to join is
    // unknown.
    let joining = agent.join_with("job", vec![], options.deadline(DEADLINE));
    timeout(Duration::from_secs(14), joining).await.unwrap_err();
    assert_eq!(seconds(&mut told), [2, 7, 12]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_goes_on_is_as_good_as_before() {
    let agent = Agent::start([MEMBERS; 2]).await;
    agent.stop();
    let (options, mut told) = told();
    let joining = tokio::spawn({
        let connected = tributary_client::Agent::connect(agent.socket()).await.unwrap();
        async move { connected.join_with("job", vec![], options).await }
    });
    sleep(Duration::from_secs(8)).await;
    agent.go_on();
    let job = joining.await.unwrap().unwrap();
    assert_eq!(seconds(&mut told), [2, 7]);

    let mut segment = segment(&job).await;
    agent.stop();
    let reduction = job.start(&mut segment, &operation(None)).unwrap();
    sleep(Duration::from_secs(8)).await;
    agent.go_on();
    assert_eq!(reduction.await.unwrap().runs.len(), 2);
    assert_eq!(seconds(&mut told), [2, 7]);
    assert_eq!(segment.elements::<i32>().unwrap(), [1, 1]);
    job.all_reduce(&mut segment, operation(Some(DEADLINE))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_without_the_agent_and_ends_the_process_s_part() {
    let agent = Agent::start([MEMBERS; 2]).await;
    let (options, mut told) = told();
    let job = join(&agent, options).await;
    let [mut first, mut second, mut third] = [segment(&job).await, segment(&job).await, segment(&job).await];
    agent.stop();
    let began = Instant::now();
    let reductions = [
        job.start(&mut first, &operation(Some(DEADLINE))).unwrap(),
        job.start(&mut second, &operation(Some(DEADLINE))).unwrap(),
    ];
    let [own, behind] = reductions;
    let error = own.await.unwrap_err();
    assert!(matches!(error, ClientError::AgentSilent { .. }), "{error}");
    let said = "collective \"layer 3\", rank 0 (): its deadline of 5 s has passed, and the agent at ";
    let silent = "agent.sock has said nothing for 5 s: is it stopped";
    assert!(error.to_string().starts_with(said) && error.to_string().contains(silent), "{error}");
    assert!((DEADLINE..DEADLINE + Duration::from_secs(2)).contains(&began.elapsed()));
    assert_eq!(seconds(&mut told), [2]);

    // The agent may still run these all-reduces and write to their memory, so no later operation may use either.
    let given_up = |error: ClientError| assert!(matches!(error, ClientError::GivenUp { .. }), "{error}");
    given_up(behind.await.unwrap_err());
    agent.go_on();
    agent.is_left().await;
    assert!(matches!(first.elements::<i32>(), Err(ClientError::SegmentInUse)));
    assert!(matches!(second.elements::<i32>(), Err(ClientError::SegmentInUse)));
    given_up(job.start(&mut third, &operation(None)).unwrap_err());
    given_up(job.segment(8).await.unwrap_err());
    let error = job.close().await.unwrap_err();
    assert!(
        error.to_string().starts_with("this process has left the job, since a deadline of 5 s"),
        "{error}"
    );
    assert_eq!(seconds(&mut told), []);
}

#[tokio::test(start_paused = true)]
async fn shared_memory_for_an_operation_does_not_take_longer_than_its_deadline() {
    let agent = Agent::start([MEMBERS; 2]).await;
    let job = join(&agent, JoinOptions::default()).await;
    agent.stop();
    let opened = timeout(LONG, job.segment_within(8, Some(DEADLINE))).await.unwrap();
    let error = opened.unwrap_err().to_string();
    assert!(error.starts_with("a request for shared memory: its deadline of 5 s has passed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn calls_end_with_the_deadline_of_the_job_s_all_reduces() {
    let agent = Agent::start([MEMBERS; 2]).await;
    let job = join(&agent, JoinOptions::default().deadline(DEADLINE)).await;
    agent.stop();
    let error = timeout(LONG, job.close()).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::AgentSilent { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_waits_itself_is_not_silent() {
    let agent = Agent::start([MEMBERS; 2]).await;
    let (options, mut told) = told();
    let job = join(&agent, options).await;
    let mut segment = segment(&job).await;
    agent.hold_sums(true);
    let mut reducing = Box::pin(job.all_reduce(&mut segment, operation(Some(DEADLINE))));
    // As long as the agent sends anything, the agent decides that a deadline has passed.
    timeout(LONG, &mut reducing).await.unwrap_err();
    agent.hold_sums(false);
    reducing.await.unwrap();
    assert_eq!(seconds(&mut told), []);
}

#[tokio::test(start_paused = true)]
async fn a_worker_waits_for_others_and_not_for_an_agent_that_is_silent_for_longer_than_its_patience() {
    let agent = Agent::start([MEMBERS; 2]).await;
    let (tell, mut told) = mpsc::unbounded_channel::<Waiting>();
    let options = TrainingOptions {
        patience: Some(DEADLINE),
        observer: Observer::new(move |waiting| drop(tell.send(waiting.clone()))),
        ..TrainingOptions::new(vec!["10.0.0.1:1".to_owned()], "job", 0)
    };
    let connected = tributary_client::Agent::connect(agent.socket()).await.unwrap();
    let mut training = connected.train(options).await.unwrap();
    let [mut gradient, mut parameters] =
        [training.segment(8).await.unwrap(), training.segment(8).await.unwrap()];
    training.begin(&mut parameters).await.unwrap();
    let Waiting { what, agent_is_silent, .. } = told.recv().await.unwrap();
    assert_eq!((what.as_str(), agent_is_silent), ("worker 1", false));

    agent.hold_sums(true);
    let mut pushing = Box::pin(training.push(&mut gradient, &mut parameters));
    timeout(LONG, &mut pushing).await.unwrap_err();
    agent.stop();
    let stopped = Instant::now();
    let error = pushing.await.unwrap_err();
    assert!(matches!(error, ClientError::AgentSilent { .. }), "{error}");
    assert!(error.to_string().starts_with("a step of the training"), "{error}");
    // The agent may have sent its last message one check earlier.
    let second = Duration::from_secs(1);
    let elapsed = stopped.elapsed();
    assert!((DEADLINE - second..DEADLINE + second).contains(&elapsed), "{elapsed:?}");
    assert_eq!(seconds(&mut told), [2]);
    // The agent may still write to these segments.
    agent.go_on();
    assert!(matches!(parameters.elements::<f32>(), Err(ClientError::SegmentInUse)));
    drop(training);
    agent.is_left().await;
}
