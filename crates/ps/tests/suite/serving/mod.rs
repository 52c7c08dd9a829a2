//! A server over TCP, its clients, and a worker that can send any message.

use std::num::{NonZeroU16, NonZeroU64};
use std::path::Path;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tributary_api::JobCredentials;
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{Hello, ServerMessage, WorkerMessage};
use tributary_ps::client::ClientOptions;
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind, ServerError, View};
use tributary_transport::Remote;

pub(crate) const PARAMETERS: usize = 10;

/// A server with one job. Dropping this value stops it.
pub(crate) struct Running {
    pub(crate) remote: Remote,
    pub(crate) view: View,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServerError>>,
}

impl Running {
    pub(crate) async fn start(policy: PolicyKind, workers: u16) -> Self {
        let epoch = NonZeroU64::new(10).unwrap();
        let spec = JobSpec::new("job", NonZeroU16::new(workers).unwrap(), policy, epoch, 1.0);
        Self::serve(JobSpec { decay: 1.0, max_parameters: 1000, ..spec }).await
    }

    pub(crate) async fn serve(spec: JobSpec) -> Self {
        Self::serve_at("127.0.0.1:0", spec, None).await
    }

    pub(crate) async fn serve_at(address: &str, spec: JobSpec, checkpoints: Option<&Path>) -> Self {
        let settings = JobSettings { spec, token: Some(b"secret".to_vec()) };
        let server = ParameterServer::start(vec![settings], checkpoints, None).unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let view = server.view();
        let serving = tokio::spawn(server.serve(listener, None, async move {
            let _ = stopped.await;
        }));
        Self { remote: Remote::parameter_server(&address, None).unwrap(), view, stop, serving }
    }

    /// Stops the server in the same way as SIGTERM.
    pub(crate) async fn stop(self) -> Result<(), ServerError> {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap()
    }

    pub(crate) fn options(&self, worker: u16) -> ClientOptions {
        let options = ClientOptions::new(vec![self.remote.clone()], "job", worker);
        ClientOptions { token: b"secret".to_vec(), ..options }
    }

    pub(crate) async fn raw(&self) -> Raw {
        let credentials = JobCredentials { job: "job".into(), token: b"secret".to_vec() };
        self.raw_with(Some(credentials)).await.unwrap()
    }

    /// Returns a worker that uses these credentials.
    pub(crate) async fn raw_with(&self, credentials: Option<JobCredentials>) -> Result<Raw, Status> {
        let mut client = ParameterServerClient::<Channel>::new(self.remote.connect().await.unwrap());
        let (messages, receiver) = mpsc::channel(8);
        let receiver = ReceiverStream::new(receiver);
        let request = match credentials {
            Some(credentials) => credentials.onto(receiver),
            None => Request::new(receiver),
        };
        let steps = client.train(request).await?.into_inner();
        Ok(Raw { messages, steps })
    }
}

/// A worker that can send any message.
pub(crate) struct Raw {
    messages: mpsc::Sender<WorkerMessage>,
    pub(crate) steps: Streaming<ServerMessage>,
}

impl Raw {
    pub(crate) async fn send(&self, message: Option<Message>) {
        self.messages.send(WorkerMessage { message }).await.unwrap();
    }

    pub(crate) async fn refused(mut self) -> Status {
        loop {
            match self.steps.message().await {
                Ok(step) => assert!(step.is_some(), "the session ended without a word"),
                Err(status) => return status,
            }
        }
    }
}

pub(crate) fn hello(worker: u32) -> Hello {
    Hello {
        worker,
        first: 0,
        length: PARAMETERS as u64,
        initial: vec![0; 4 * PARAMETERS],
        host: String::new(),
        parameters_codec: String::new(),
        workers: 0,
        settings: String::new(),
    }
}
