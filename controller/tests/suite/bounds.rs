//! Tests of the limits on the resources that a caller can use in the controller.

use std::collections::BTreeMap;

use crate::common::{Client, create, job, list, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::host_report::Report;
use tributary_api::{JobCredentials, v1};
use tributary_controller::RunningController;
use tributary_testkit::PLAIN;
use tributary_topology::Topology;

async fn controller() -> (RunningController, Client) {
    let (controller, client) = start(Topology::parse(PLAIN, "plain").unwrap(), BTreeMap::new()).await;
    (controller, client.max_encoding_message_size(usize::MAX))
}

/// Returns a member's answer in job `digits` with this number of finished slices.
fn answer(slices: usize) -> v1::AnswerRequest {
    let slice = v1::FinishedSlice { values: vec![1; 1024], ..v1::FinishedSlice::default() };
    let provided = v1::Provided { slices: vec![slice; slices] };
    v1::AnswerRequest {
        host: "w0".into(),
        answer: Some(Answer::Provided(provided)),
        ..v1::AnswerRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_slices_are_taken_from_whom_knows_the_token() {
    let (_controller, mut client) = controller().await;
    let (token, _) = create(&mut client, job("digits")).await.unwrap();
    let credentials = |token| JobCredentials { job: "digits".into(), token };

    let stranger = client.answer(answer(60_000)).await.unwrap_err();
    assert_eq!(stranger.code(), Code::PermissionDenied, "{stranger}");
    assert!(stranger.message().contains("metadata"), "{stranger}");
    let guesses = client.answer(credentials(vec![7; 16]).onto(answer(60_000))).await.unwrap_err();
    assert_eq!(guesses.code(), Code::PermissionDenied, "{guesses}");
    assert!(guesses.message().contains("token"), "{guesses}");

    // The request is read completely, but refused, because the controller did not request the slices.
    let member = client.answer(credentials(token).onto(answer(30_000))).await.unwrap_err();
    assert_eq!(member.code(), Code::NotFound, "{member}");
    assert!(member.message().contains("w0"), "{member}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_may_be_large() {
    let (_controller, mut client) = controller().await;
    let workers = vec!["w0".repeat(1 << 20)];
    let large = client.create_job(v1::CreateJobRequest { workers, ..job("large") }).await.unwrap_err();
    assert_eq!(large.code(), Code::OutOfRange, "{large}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_far_larger_in_memory_than_on_the_wire_is_refused() {
    let (_controller, mut client) = controller().await;
    let jobs = vec![v1::JobProgress::default(); 300_000];
    let heartbeat = v1::Heartbeat { jobs, ..v1::Heartbeat::default() };
    let report = v1::HostReport { report: Some(Report::Heartbeat(heartbeat)) };
    let refused = client.open_session(tokio_stream::once(report)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("fields"), "{refused}");
    assert!(list(&mut client).await.is_empty(), "and the controller goes on");
}

/// Checks the limit on streams. HTTP/2 has no limit unless the server's SETTINGS contain one.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_have_so_many_streams_and_no_more() {
    const MAX_CONCURRENT_STREAMS: [u8; 2] = [0, 3];
    let (controller, _client) = controller().await;
    let mut stream = TcpStream::connect(controller.api_addr()).await.unwrap();
    // The client sends the preface and an empty SETTINGS frame.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    stream.read_exact(&mut settings).await.unwrap();
    let (settings, _) = settings.as_chunks::<6>();
    let most = settings.iter().find(|setting| setting[..2] == MAX_CONCURRENT_STREAMS).unwrap();
    assert!((1..=256).contains(&u32::from_be_bytes([most[2], most[3], most[4], most[5]])));
}
