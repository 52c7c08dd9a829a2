//! Training processes that use a real parameter server through the agents of their hosts, over Unix
//! sockets, shared memory and loopback TCP.

use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::process::{PARAMETERS, Process};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Code;
use tributary_client::{Agent, ClientError, Segment, Training, TrainingOptions};
use tributary_host_agent::{AgentConfig, AgentDaemon, AgentError, Limits, RunningAgent};
use tributary_protocol::Timers;
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind};
use tributary_transport::Remote;

const TOKEN: &[u8] = b"secret";

/// A parameter server with a synchronous job of two workers, and the agents of their hosts.
struct Hosts {
    folder: TempDir,
    agents: Vec<RunningAgent>,
    server: String,
    _stop: oneshot::Sender<()>,
}

impl Hosts {
    async fn start() -> Self {
        let two = NonZeroU16::new(2).unwrap();
        let spec = JobSpec::new("job", two, PolicyKind::Bsp, NonZeroU64::new(10).unwrap(), 1.0);
        let spec = JobSpec { decay: 1.0, max_parameters: 1000, ..spec };
        let settings = JobSettings { spec, token: Some(TOKEN.to_vec()) };
        let server = ParameterServer::start(vec![settings], None, None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.serve(listener, None, async move {
            let _ = stopped.await;
        }));
        let folder = tempfile::tempdir().unwrap();
        let agents = (0..2).map(|host| start_agent(&folder, host)).collect();
        Self { folder, agents, server: address, _stop: stop }
    }

    fn options(&self, worker: u16) -> TrainingOptions {
        let options = TrainingOptions::new(vec![self.server.clone()], "job", worker);
        TrainingOptions { token: TOKEN.to_vec(), ..options }
    }

    async fn open(&self, options: TrainingOptions) -> Result<Training, ClientError> {
        Agent::connect(socket(&self.folder, options.worker)).await.unwrap().train(options).await
    }

    /// Starts both workers. Returns them when the training has started.
    async fn start_both(&self) -> [Process; 2] {
        let process = async |worker| Process::start(self.open(self.options(worker)).await.unwrap()).await;
        let (first, second) = tokio::join!(process(0), process(1));
        [first.unwrap(), second.unwrap()]
    }
}

fn socket(folder: &TempDir, host: u16) -> PathBuf {
    folder.path().join(format!("w{host}.sock"))
}

/// Starts the agent of a host without a fabric.
fn start_agent(folder: &TempDir, host: u16) -> RunningAgent {
    let no_port =
        || Err(AgentError::System { step: "open a port", reason: std::io::ErrorKind::NotFound.into() });
    let config = AgentConfig {
        host: format!("w{host}"),
        controller: Remote::controller("127.0.0.1:1", None).unwrap(),
        open_port: Arc::new(no_port),
        socket: socket(folder, host),
        timers: Timers::default(),
        limits: Limits::of_this_machine(),
    };
    AgentDaemon::start(config).unwrap()
}

fn refusal<T>(result: Result<T, ClientError>) -> (Code, String) {
    match result {
        Err(ClientError::Refused { code, message }) => (code, message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

#[tokio::test]
async fn processes_push_gradients_and_find_parameters_in_shared_memory() {
    let hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.start_both().await;
    assert_eq!((first.training.host(), second.training.host()), ("w0", "w1"));
    assert_eq!(first.parameters(), [100.0; PARAMETERS]);
    let mut expected = 100.0;
    for iteration in 0..3 {
        assert_eq!((first.step.iteration, second.step.iteration), (iteration, iteration));
        // Both workers' gradients cause one update.
        assert_eq!((first.step.updates, second.step.updates), (iteration, iteration));
        let (a, b) = tokio::join!(first.push(1.0), second.push(4.0));
        a.and(b).unwrap();
        // The parameters change by the mean of both gradients, at a learning rate of 1.
        expected -= 2.5;
        assert_eq!(first.parameters(), [expected; PARAMETERS]);
        assert_eq!(second.parameters(), [expected; PARAMETERS]);
    }
    assert_eq!(first.step.released_by, second.step.released_by);
}

#[tokio::test]
async fn a_process_that_goes_is_not_waited_for() {
    let hosts = Hosts::start().await;
    let [first, mut second] = hosts.start_both().await;
    let (pushed, ()) = tokio::join!(second.push(1.0), async { drop(first) });
    pushed.unwrap();
    assert_eq!(second.parameters(), [99.0; PARAMETERS]);
    // Another process may take the rank, even a process of another host.
    let again = hosts.open(hosts.options(0)).await.unwrap();
    assert_eq!(Process::start(again).await.unwrap().step.iteration, 0);
}

#[tokio::test]
async fn an_agent_that_stops_leaves_the_training() {
    let mut hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.start_both().await;
    let agent = hosts.agents.remove(0);
    let (stopped, ()) = tokio::join!(first.push(1.0), agent.shutdown());
    assert!(matches!(refusal(stopped).0, Code::Aborted | Code::Unavailable));
    second.push(1.0).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_the_reason() {
    let hosts = Hosts::start().await;
    let open = async |change: &dyn Fn(&mut TrainingOptions)| {
        let mut options = hosts.options(0);
        change(&mut options);
        match hosts.open(options).await {
            Ok(training) => Process::start(training).await.map(drop),
            Err(error) => Err(error),
        }
    };
    let (code, message) = refusal(open(&|options| options.codec = "zip".into()).await);
    assert!(code == Code::InvalidArgument && message.contains("casq-4"), "{message}");
    let (code, message) = refusal(open(&|options| options.servers = vec!["nowhere".into()]).await);
    assert!(code == Code::InvalidArgument && message.contains("HOST:PORT"), "{message}");
    let (code, message) = refusal(open(&|options| options.servers.clear()).await);
    assert!(code == Code::InvalidArgument && message.contains("0 servers"), "{message}");
    let (code, message) = refusal(open(&|options| options.token = b"wrong".to_vec()).await);
    assert!(code == Code::PermissionDenied && message.contains("token"), "{message}");
    let unreachable = |options: &mut TrainingOptions| {
        options.servers = vec!["127.0.0.1:1".into()];
        options.patience = Some(Duration::from_millis(1));
    };
    let (code, message) = refusal(open(&unreachable).await);
    assert!(code == Code::Unavailable && message.contains("127.0.0.1:1"), "{message}");
}

#[tokio::test]
async fn a_gradient_that_cannot_be_used_is_refused_and_the_next_one_counts() {
    let hosts = Hosts::start().await;
    let mut early = hosts.open(hosts.options(0)).await.unwrap();
    let (mut gradient, mut parameters) =
        (early.segment(4 * PARAMETERS).await.unwrap(), early.segment(4 * PARAMETERS).await.unwrap());
    let (code, message) = refusal(early.push(&mut gradient, &mut parameters).await);
    assert!(code == Code::FailedPrecondition && message.contains("begin"), "{message}");
    drop(early);
    let [mut first, mut second] = hosts.start_both().await;
    assert_eq!(refusal(first.push(f32::NAN).await).0, Code::FailedPrecondition);
    let mut long = first.training.segment(4 * PARAMETERS + 4).await.unwrap();
    assert_eq!(refusal(first.training.push(&mut long, &mut first.parameters).await).0, Code::InvalidArgument);
    let mut other = first.training.segment(4 * PARAMETERS + 4).await.unwrap();
    let (code, message) = refusal(first.training.push(&mut long, &mut other).await);
    assert!(code == Code::InvalidArgument && message.contains("6 values"), "{message}");
    assert_eq!(refusal(first.training.begin(&mut first.parameters).await).0, Code::FailedPrecondition);
    let (a, b) = tokio::join!(first.push(1.0), second.push(3.0));
    a.and(b).unwrap();
    assert_eq!(first.parameters(), [98.0; PARAMETERS]);
}

/// Creates a segment that holds these values.
async fn filled(training: &Training, values: &[f32]) -> Segment {
    let mut segment = training.segment(size_of_val(values)).await.unwrap();
    segment.elements_mut::<f32>().unwrap().copy_from_slice(values);
    segment
}

#[tokio::test]
async fn a_gradient_in_parts_is_what_it_is_in_one_piece() {
    let hosts = Hosts::start().await;
    let [mut first, mut second] = hosts.start_both().await;
    for turn in 1..3_u8 {
        let mut segment = filled(&first.training, &[0.0, 1.0, 2.0, 0.0]).await;
        let (mut early, mut last) =
            (filled(&first.training, &[3.0, 4.0]).await, filled(&first.training, &[5.0]).await);
        let training = &first.training;
        let one = training.start_push_part((&mut early, 0..2), 3).unwrap();
        let other = training.start_push_part((&mut segment, 1..3), 1).unwrap();
        let rest = training.start_push_rest((&mut last, 0..1), 0, (&mut first.parameters, 0..PARAMETERS));
        // The calls are made in the order in which they were started.
        let (rest, other, one, pushed) = tokio::join!(rest.unwrap(), other, one, second.push(0.0));
        let (step, ()) = (rest.unwrap(), one.and(other).and(pushed).unwrap());
        assert_eq!(step.iteration, u64::from(turn));
        // The change is half of the gradient, because the other worker's gradient is zeros.
        let expected = [5.0, 1.0, 2.0, 3.0, 4.0].map(|value: f32| 100.0 - f32::from(turn) * value / 2.0);
        assert_eq!(first.parameters(), expected);
    }
}

#[tokio::test]
async fn parts_that_cannot_be_are_refused_and_dropped_ones_do_not_count() {
    let hosts = Hosts::start().await;
    let early = hosts.open(hosts.options(0)).await.unwrap();
    let mut part = filled(&early, &[1.0]).await;
    let (code, message) = refusal(early.start_push_part((&mut part, 0..1), 0).unwrap().await);
    assert!(code == Code::FailedPrecondition && message.contains("begin"), "{message}");
    early.start_drop_parts().await.unwrap();
    drop(early);
    let [mut first, mut second] = hosts.start_both().await;
    let mut long = filled(&first.training, &[1.0; PARAMETERS + 1]).await;
    let mut spoilt = filled(&first.training, &[f32::NAN]).await;
    let push =
        |segment: &mut Segment, count, at| first.training.start_push_part((segment, 0..count), at).unwrap();
    push(&mut long, 3, 0).await.unwrap();
    let wrong =
        [(PARAMETERS + 1, 0, "6 values of a gradient of 5"), (3, 3, "beyond the end"), (1, 2, "values 0..3")];
    for (count, at, words) in wrong {
        let (code, message) = refusal(push(&mut long, count, at).await);
        assert!(code == Code::InvalidArgument && message.contains(words), "{message}");
    }
    assert_eq!(refusal(push(&mut long, 1, usize::MAX).await).0, Code::InvalidArgument);
    assert_eq!(refusal(push(&mut spoilt, 1, 3).await).0, Code::FailedPrecondition);
    let rest = first.training.start_push_rest((&mut long, 0..1), 3, (&mut first.parameters, 0..PARAMETERS));
    let (code, message) = refusal(rest.unwrap().await);
    assert!(code == Code::InvalidArgument && message.contains("values 4..5 are missing"), "{message}");
    first.training.start_drop_parts().await.unwrap();
    let (a, b) = tokio::join!(first.push(1.0), second.push(3.0));
    a.and(b).unwrap();
    assert_eq!(first.parameters(), [98.0; PARAMETERS]);
}
