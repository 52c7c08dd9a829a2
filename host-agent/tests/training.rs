//! Training processes that use a real parameter server through the agents of their hosts: over Unix sockets, shared
//! memory and loopback TCP.

#![allow(clippy::unwrap_used, clippy::panic)]

mod process;

use std::num::{NonZeroU16, NonZeroU64};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use process::{PARAMETERS, Process};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::Code;
use tributary_client::{Agent, ClientError, Training, TrainingOptions};
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

    /// Both workers, where training has started.
    async fn start_both(&self) -> [Process; 2] {
        let process = async |worker| Process::start(self.open(self.options(worker)).await.unwrap()).await;
        let (first, second) = tokio::join!(process(0), process(1));
        [first.unwrap(), second.unwrap()]
    }
}

fn socket(folder: &TempDir, host: u16) -> PathBuf {
    folder.path().join(format!("w{host}.sock"))
}

/// The agent of a host without a fabric.
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
        // One for both workers' gradients.
        assert_eq!((first.step.updates, second.step.updates), (iteration, iteration));
        let (a, b) = tokio::join!(first.push(1.0), second.push(4.0));
        a.and(b).unwrap();
        // The mean of both, at a learning rate of 1.
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
    // The rank is free for another process, of another host as well.
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
    let away = |options: &mut TrainingOptions| {
        options.servers = vec!["127.0.0.1:1".into()];
        options.patience = Some(Duration::from_millis(1));
    };
    let (code, message) = refusal(open(&away).await);
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
