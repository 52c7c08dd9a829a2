//! What a server that goes back, or cannot write its checkpoints, does to a training.

#![allow(clippy::unwrap_used)]

mod serving;

use std::fs;
use std::num::{NonZeroU16, NonZeroU64};
use std::path::Path;

use serving::PARAMETERS;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tributary_ps::client::{Client, ClientOptions};
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind, ServerError, View};
use tributary_transport::Remote;

const GRADIENT: [f32; PARAMETERS] = [5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.25, 0.125];

/// A server with one job of one worker, which writes a checkpoint at each update.
struct Restarted {
    address: String,
    view: View,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServerError>>,
}

impl Restarted {
    async fn start(address: &str, checkpoints: Option<&Path>) -> Self {
        let (one, epoch) = (NonZeroU16::MIN, NonZeroU64::new(10).unwrap());
        let spec = JobSpec::new("job", one, PolicyKind::Bsp, epoch, 1.0);
        let spec = JobSpec { checkpoint_updates: NonZeroU64::MIN, ..spec };
        let server =
            ParameterServer::start(vec![JobSettings { spec, token: None }], checkpoints, None).unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let view = server.view();
        let serving = tokio::spawn(server.serve(listener, None, async move {
            let _ = stopped.await;
        }));
        Self { address, view, stop, serving }
    }

    async fn join(&self, codec: &str) -> Client {
        let remote = Remote::parameter_server(&self.address, None).unwrap();
        let options = ClientOptions::new(vec![remote], "job", 0);
        let options = ClientOptions { codec: codec.parse().unwrap(), ..options };
        Client::join(options, &[0.0; PARAMETERS]).await.unwrap().0
    }

    async fn stop(self) -> Result<(), ServerError> {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap()
    }

    /// Waits until a checkpoint could not be written.
    async fn fails_to_write(&self) {
        while self.view.stats()[0].1.checkpoint_failures == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn after_a_server_has_gone_back_nothing_is_given_twice() {
    let server = Restarted::start("127.0.0.1:0", None).await;
    let mut client = server.join("top-5-ef").await;
    let first = client.push(&GRADIENT).await.unwrap().parameters;
    client.push(&GRADIENT).await.unwrap();
    client.push(&GRADIENT).await.unwrap();
    let address = server.address.clone();
    server.stop().await.unwrap();
    let server = Restarted::start(&address, None).await;
    // This gradient is of parameters that are no more.
    assert_eq!(client.push(&GRADIENT).await.unwrap().iteration, 0);
    assert_eq!(client.push(&GRADIENT).await.unwrap().parameters, first);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_that_failed_is_written_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let server = Restarted::start("127.0.0.1:0", Some(&checkpoints)).await;
    let mut client = server.join("none").await;
    let pushed = client.push(&GRADIENT).await.unwrap();
    server.fails_to_write().await;
    fs::create_dir(&checkpoints).unwrap();
    server.stop().await.unwrap();
    let server = Restarted::start("127.0.0.1:0", Some(&checkpoints)).await;
    assert_eq!(server.view.parameters("job").await.unwrap(), pushed.parameters);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_could_not_save_all_says_so_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let server = Restarted::start("127.0.0.1:0", Some(&folder.path().join("nowhere"))).await;
    let mut client = server.join("none").await;
    client.push(&GRADIENT).await.unwrap();
    server.fails_to_write().await;
    assert!(matches!(server.stop().await, Err(ServerError::Unsaved)));
}
