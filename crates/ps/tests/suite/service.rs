//! Tests of the server over TCP. If a worker sends invalid messages or ends, only that worker is
//! affected.

use std::num::NonZeroU16;

use tonic::Code;
use tributary_api::JobCredentials;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{Hello, Push, Step, server_message};
use tributary_codec::{Kind, decode};
use tributary_ps::client::{Client, ClientError, ClientOptions};
use tributary_ps::server::PolicyKind;

use crate::serving::{PARAMETERS, Raw, Running, hello};

#[tokio::test]
async fn what_is_malformed_ends_its_own_session_and_releases_the_others() {
    let server = Running::start(PolicyKind::Bsp, 2).await;
    let good_code = Kind::None.codec(0).encode(&[1.0; PARAMETERS]).unwrap();
    let push =
        |iteration, code: &[u8]| Some(Message::Push(Push { iteration, updates: 0, code: code.to_vec() }));
    let mut damaged = good_code.clone();
    damaged.truncate(20);
    let short = Kind::None.codec(0).encode(&[1.0; 3]).unwrap();
    let mut infinite = good_code.clone();
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let mut wrong = vec![push(0, b""), push(0, b"rubbish"), push(0, &damaged), push(0, &short)];
    wrong.extend([push(0, &infinite), push(99, &good_code), None, Some(Message::Hello(hello(1)))]);
    let mut other = None;
    for message in wrong {
        let raw = server.raw().await;
        raw.send(Some(Message::Hello(hello(1)))).await;
        let client = match other.take() {
            Some(client) => client,
            None => Client::join(server.options(0), &[0.0; PARAMETERS]).await.unwrap().0,
        };
        let mut client = client;
        raw.send(message).await;
        let status = raw.refused().await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        // The other worker is now alone, so it does not wait.
        client.push(&[1.0; PARAMETERS]).await.unwrap();
        other = Some(client);
    }
    assert_eq!(server.view.parameters("job").await.unwrap(), [-8.0; PARAMETERS]);
}

/// Such a worker would train on data that other workers train on, too.
#[tokio::test]
async fn a_worker_that_shares_with_another_number_of_workers_is_told() {
    let server = Running::start(PolicyKind::Asp, 2).await;
    let options = |workers| ClientOptions { workers: NonZeroU16::new(workers), ..server.options(1) };
    let refused = Client::join(options(5), &[0.0; PARAMETERS]).await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("5 workers share the data, and job \"job\" has 2"), "{refused}");
    assert_eq!(server.view.stats()[0].1.workers.len(), 0);
    let join = |options| Client::join(options, &[0.0; PARAMETERS]);
    let (first, second) = tokio::join!(join(server.options(0)), join(options(2)));
    assert!(first.is_ok() && second.is_ok());
}

#[tokio::test]
async fn servers_with_other_job_files_are_no_servers_of_one_training() {
    let [one, other] = [Running::start(PolicyKind::Bsp, 1).await, Running::start(PolicyKind::Asp, 1).await];
    let servers = vec![one.remote.clone(), other.remote.clone()];
    let options = ClientOptions { servers, ..one.options(0) };
    let refused = Client::join(options, &[0.0; PARAMETERS]).await.map(drop).unwrap_err();
    assert!(matches!(refused, ClientError::OtherJob { .. }), "{refused}");
}

#[tokio::test]
async fn who_does_not_belong_never_joins() {
    let server = Running::start(PolicyKind::Asp, 2).await;
    let refusals = [
        (Some(Message::Hello(hello(2))), Code::InvalidArgument),
        (Some(Message::Hello(hello(70_000))), Code::InvalidArgument),
        (Some(Message::Hello(Hello { workers: 3, ..hello(0) })), Code::InvalidArgument),
        (Some(Message::Hello(Hello { length: 0, initial: Vec::new(), ..hello(0) })), Code::InvalidArgument),
        (Some(Message::Hello(Hello { length: 1 << 60, ..hello(0) })), Code::InvalidArgument),
        (Some(Message::Hello(Hello { initial: vec![0; 7], ..hello(0) })), Code::InvalidArgument),
        (
            Some(Message::Hello(Hello { initial: vec![255; 4 * PARAMETERS], ..hello(0) })),
            Code::InvalidArgument,
        ),
        (None, Code::InvalidArgument),
    ];
    for (message, code) in refusals {
        let raw = server.raw().await;
        raw.send(message).await;
        assert_eq!(raw.refused().await.code(), code);
    }
    // The credentials are refused before any message is sent.
    let credentials = |job: &str, token: &str| Some(JobCredentials { job: job.into(), token: token.into() });
    for credentials in
        [None, credentials("job", "guess"), credentials("job", ""), credentials("other", "secret")]
    {
        let refused = server.raw_with(credentials).await.map(drop).unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    }
    assert_eq!(server.view.stats()[0].1.workers.len(), 0);
    let mut options = server.options(0);
    options.token = b"guess".to_vec();
    let refused = Client::join(options, &[0.0; PARAMETERS]).await.map(drop).unwrap_err();
    assert!(matches!(refused, ClientError::Refused { .. }) && refused.to_string().contains("token"));
}

#[tokio::test]
async fn a_worker_that_comes_again_takes_its_old_sessions_place() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let raw = server.raw().await;
    raw.send(Some(Message::Hello(hello(0)))).await;
    let (mut client, step) = Client::join(server.options(0), &[0.0; PARAMETERS]).await.unwrap();
    assert_eq!(step.iteration, 0);
    assert_eq!(raw.refused().await.code(), Code::Aborted);
    let step = client.push(&[2.0; PARAMETERS]).await.unwrap();
    assert_eq!((step.iteration, step.updates, step.parameters), (1, 1, vec![-2.0; PARAMETERS]));
    let stats = &server.view.stats()[0].1;
    assert_eq!((stats.updates, stats.gradients(), stats.staleness()), (1, 1, 0.0));
}

#[tokio::test]
async fn what_a_client_cannot_push_is_said_and_it_may_go_on() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let (mut client, _) = Client::join(server.options(0), &[0.0; PARAMETERS]).await.unwrap();
    assert!(matches!(
        client.push(&[1.0; 3]).await,
        Err(ClientError::Length { expected: PARAMETERS, got: 3 })
    ));
    assert!(matches!(client.push(&[f32::NAN; PARAMETERS]).await, Err(ClientError::Encode(_))));
    assert_eq!(client.push(&[1.0; PARAMETERS]).await.unwrap().iteration, 1);
    let mut shared = server.options(0);
    shared.codec = Kind::Shared;
    assert!(matches!(Client::join(shared, &[0.0]).await.map(drop), Err(ClientError::Codec(_))));
}

/// Waits for the worker's next step.
async fn step(raw: &mut Raw) -> Step {
    loop {
        let told = raw.steps.message().await.unwrap().unwrap();
        if let Some(server_message::Message::Step(step)) = told.message {
            return step;
        }
    }
}

#[tokio::test]
async fn parameters_go_whole_first_and_then_as_a_code_of_what_has_changed() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let mut raw = server.raw().await;
    let hello = Hello { parameters_codec: "uniform-8".into(), ..hello(0) };
    raw.send(Some(Message::Hello(hello))).await;
    let first = step(&mut raw).await;
    assert_eq!((first.parameters.len(), first.change.len()), (4 * PARAMETERS, 0));
    let code = Kind::None.codec(0).encode(&[1.0; PARAMETERS]).unwrap();
    raw.send(Some(Message::Push(Push { iteration: 0, updates: 0, code }))).await;
    let second = step(&mut raw).await;
    assert_eq!((second.iteration, second.parameters.len()), (1, 0));
    assert_eq!(decode(&second.change, PARAMETERS).unwrap(), [-1.0; PARAMETERS]);
}

#[tokio::test]
async fn what_a_codec_leaves_out_of_the_parameters_comes_later() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    let codec = "casq-4".parse().unwrap();
    let options = ClientOptions { parameters_codec: codec, ..server.options(0) };
    let (mut client, first) = Client::join(options, &[0.5; PARAMETERS]).await.unwrap();
    assert_eq!(first.parameters, [0.5; PARAMETERS]);
    for iteration in 0_u16..20 {
        let place = |place| (f32::from(iteration) + place as f32).sin();
        client.push(&(0..PARAMETERS).map(place).collect::<Vec<_>>()).await.unwrap();
    }
    let mut known = Vec::new();
    for _ in 0..60 {
        known = client.push(&[0.0; PARAMETERS]).await.unwrap().parameters;
    }
    let parameters = server.view.parameters("job").await.unwrap();
    let off = known.iter().zip(&parameters).map(|(known, value)| (known - value).abs()).fold(0.0, f32::max);
    assert!(off < 1e-3, "{known:?} of {parameters:?}");
}

#[tokio::test]
async fn a_codec_that_parameters_cannot_have_is_refused_by_name() {
    let server = Running::start(PolicyKind::Asp, 1).await;
    for name in ["gzip", "casq-4-shared"] {
        let raw = server.raw().await;
        raw.send(Some(Message::Hello(Hello { parameters_codec: name.into(), ..hello(0) }))).await;
        let status = raw.refused().await;
        assert!(status.code() == Code::InvalidArgument && status.message().contains(name), "{status:?}");
    }
    let options = ClientOptions { parameters_codec: Kind::Shared, ..server.options(0) };
    assert!(matches!(Client::join(options, &[0.0]).await.map(drop), Err(ClientError::Codec(_))));
}
