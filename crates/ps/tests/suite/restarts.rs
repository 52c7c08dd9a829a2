//! Tests of trainings whose server restarts from a checkpoint, or cannot write its checkpoints.

use std::fs;
use std::num::{NonZeroU16, NonZeroU64};
use std::path::Path;

use tributary_ps::client::{Client, ClientOptions};
use tributary_ps::server::{CheckpointError, JobSettings, JobSpec, ParameterServer, PolicyKind, ServerError};

use crate::serving::{PARAMETERS, Running};

const GRADIENT: [f32; PARAMETERS] = [5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.25, 0.125];

/// Starts a server with one job of one worker, which writes a checkpoint at each update.
async fn start(address: &str, checkpoints: Option<&Path>) -> Running {
    Running::serve_at(address, spec(), checkpoints).await
}

fn spec() -> JobSpec {
    let spec = JobSpec::new("job", NonZeroU16::MIN, PolicyKind::Bsp, NonZeroU64::new(10).unwrap(), 1.0);
    JobSpec { checkpoint_updates: NonZeroU64::MIN, ..spec }
}

async fn join(server: &Running, codec: &str) -> Client {
    let options = ClientOptions { codec: codec.parse().unwrap(), ..server.options(0) };
    Client::join(options, &[0.0; PARAMETERS]).await.unwrap().0
}

/// Waits until writing a checkpoint has failed.
async fn fails_to_write(server: &Running) {
    while server.view.stats()[0].1.checkpoint_failures == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn after_a_server_has_gone_back_nothing_is_given_twice() {
    let server = start("127.0.0.1:0", None).await;
    let mut client = join(&server, "top-5-ef").await;
    let first = client.push(&GRADIENT).await.unwrap().parameters;
    client.push(&GRADIENT).await.unwrap();
    client.push(&GRADIENT).await.unwrap();
    let address = server.remote.address().to_owned();
    server.stop().await.unwrap();
    let server = start(&address, None).await;
    // The parameters of this gradient were lost with the restart.
    assert_eq!(client.push(&GRADIENT).await.unwrap().iteration, 0);
    assert_eq!(client.push(&GRADIENT).await.unwrap().parameters, first);
    server.stop().await.unwrap();
}

/// The worker's step may take longer than the restarted server waits for its workers.
#[tokio::test]
async fn a_worker_that_computes_while_its_server_restarts_joins_again_at_once() {
    let spec = JobSpec { workers: NonZeroU16::new(2).unwrap(), ..spec() };
    let server = Running::serve(spec.clone()).await;
    let join = |worker| Client::join(server.options(worker), &[0.0; PARAMETERS]);
    let (first, second) = tokio::join!(join(0), join(1));
    let ((mut first, _), (mut second, _)) = (first.unwrap(), second.unwrap());
    let address = server.remote.address().to_owned();
    server.stop().await.unwrap();
    let server = Running::serve_at(&address, spec, None).await;
    // Neither worker has a gradient to push.
    let is_back = |worker| server.view.stats()[0].1.workers.get(&worker).is_some_and(|stats| stats.connected);
    while !(is_back(0) && is_back(1)) {
        tokio::task::yield_now().await;
    }
    let (one, other) = tokio::join!(first.push(&GRADIENT), second.push(&GRADIENT));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_eq!((one.iteration, one.updates, &one.parameters), (1, 1, &other.parameters));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_that_failed_is_written_when_the_server_stops() {
    let folder = tempfile::tempdir().unwrap();
    let checkpoints = folder.path().join("checkpoints");
    let server = start("127.0.0.1:0", Some(&checkpoints)).await;
    let mut client = join(&server, "none").await;
    let pushed = client.push(&GRADIENT).await.unwrap();
    fails_to_write(&server).await;
    fs::create_dir(&checkpoints).unwrap();
    server.stop().await.unwrap();
    let server = start("127.0.0.1:0", Some(&checkpoints)).await;
    assert_eq!(server.view.parameters("job").await.unwrap(), pushed.parameters);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_server_that_could_not_save_all_says_so_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let server = start("127.0.0.1:0", Some(&folder.path().join("nowhere"))).await;
    let mut client = join(&server, "none").await;
    client.push(&GRADIENT).await.unwrap();
    fails_to_write(&server).await;
    assert!(matches!(server.stop().await, Err(ServerError::Unsaved)));
}

#[tokio::test]
async fn no_two_servers_write_the_same_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let second = || {
        let settings = JobSettings { spec: spec(), token: None };
        ParameterServer::start(vec![settings], Some(folder.path()), None).err()
    };
    let server = start("127.0.0.1:0", Some(folder.path())).await;
    let refused = second().unwrap();
    assert!(matches!(refused, ServerError::Checkpoint(CheckpointError::Taken { .. })), "{refused}");
    server.stop().await.unwrap();
    assert!(second().is_none());
}
