//! Limits on the resources that a client can use on the server.

use tokio_stream::StreamExt;
use tonic::Code as Grpc;
use tributary_p4runtime::entry::Query;
use tributary_p4runtime::p4::v1 as message;
use tributary_p4runtime::p4::v1::stream_message_request::Update as Request;
use tributary_p4runtime::p4::v1::stream_message_response::Update as Response;

use crate::fixture::{DEVICE, INFO, Rig, entries, guard, insert, read, soon};

fn wildcards(count: usize) -> message::ReadRequest {
    let all = Query::AllCounters.to_proto(&INFO).unwrap();
    message::ReadRequest { device_id: DEVICE, entities: vec![all; count], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_far_larger_in_memory_than_on_the_wire_is_refused() {
    let rig = Rig::start().await;
    let mut client = rig.client().await;
    let updates = vec![message::Update::default(); 500_000];
    let write = message::WriteRequest { device_id: DEVICE, updates, ..Default::default() };
    let refused = client.write(write).await.unwrap_err();
    assert_eq!(refused.code(), Grpc::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("fields"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_program_may_be_large() {
    let rig = Rig::start().await;
    let mut client = rig.client().await;
    let entry = message::TableEntry { metadata: vec![7; 5 << 20], ..Default::default() };
    let entity = message::Entity { entity: Some(message::entity::Entity::TableEntry(entry)) };
    let update = message::Update { r#type: 1, entity: Some(entity) };
    let write = message::WriteRequest { device_id: DEVICE, updates: vec![update], ..Default::default() };
    assert_eq!(client.write(write).await.unwrap_err().code(), Grpc::OutOfRange);

    let config =
        message::ForwardingPipelineConfig { p4_device_config: vec![7; 5 << 20], ..Default::default() };
    let program = message::SetForwardingPipelineConfigRequest {
        device_id: DEVICE,
        config: Some(config),
        ..Default::default()
    };
    // The server reads the request, but refuses it because this client is not the primary.
    let refused = client.set_forwarding_pipeline_config(program).await.unwrap_err();
    assert_eq!(refused.code(), Grpc::PermissionDenied, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_hold_up_nobody() {
    let (rig, session) = Rig::with_program().await;
    let mut client = rig.client().await;
    let mut unread = Vec::new();
    // Together, the answers exceed every window.
    let refused = loop {
        match soon(client.read(wildcards(1000))).await {
            Ok(answer) => unread.push(answer),
            Err(refused) => break refused,
        }
        assert!(unread.len() < 100, "someone has to be refused");
    };
    assert_eq!(refused.code(), Grpc::ResourceExhausted, "{refused}");

    soon(session.write(vec![insert(guard(1, 2))])).await.unwrap();
    // One reader disconnects. Its place is free as soon as the server detects this.
    drop(unread.pop());
    let found = soon(async {
        loop {
            if let Ok(found) =
                session.read(vec![Query::Table("egress_guard".to_owned()).to_proto(&INFO).unwrap()]).await
            {
                break found;
            }
        }
    })
    .await;
    assert_eq!(found.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_whole() {
    let (rig, session) = Rig::with_program().await;
    let all = read(&session, Query::AllCounters).await.len();
    let mut client = rig.client().await;
    let mut answer = client.read(wildcards(50)).await.unwrap().into_inner();
    let (mut messages, mut found) = (0, 0);
    while let Some(response) = soon(answer.next()).await {
        messages += 1;
        found += response.unwrap().entities.len();
    }
    assert_eq!(found, 50 * all);
    assert!(messages > 1);
    let refused = client.read(wildcards(1001)).await.unwrap_err();
    assert_eq!(refused.code(), Grpc::InvalidArgument, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_replaced_ends_the_answers_about_the_last_one() {
    let (rig, session) = Rig::with_program().await;
    let mut client = rig.client().await;
    let mut answer = client.read(wildcards(1000)).await.unwrap().into_inner();
    session.set_pipeline(crate::fixture::JSON.as_bytes(), &INFO, 2).await.unwrap();
    let end = soon(async {
        loop {
            match answer.next().await {
                Some(Ok(_)) => {}
                end => break end,
            }
        }
    })
    .await;
    let aborted = end.expect("it cannot be whole").unwrap_err();
    assert_eq!(aborted.code(), Grpc::Aborted, "{aborted}");
    assert!(entries(&session, "egress_guard").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_packet_goes_back_only_if_it_is_small() {
    let rig = Rig::start().await;
    let mut client = rig.client().await;
    let packet = |bytes| {
        let packet = message::PacketOut { payload: vec![7; bytes], metadata: Vec::new() };
        message::StreamMessageRequest { update: Some(Request::Packet(packet)) }
    };
    let requests = tokio_stream::iter([packet(100), packet(1 << 20)]).chain(tokio_stream::pending());
    let mut answers = client.stream_channel(requests).await.unwrap().into_inner();
    let mut echoes = Vec::new();
    for _ in 0..2 {
        match soon(answers.next()).await.unwrap().unwrap().update {
            Some(Response::Error(error)) => match error.details.unwrap() {
                message::stream_error::Details::PacketOut(out) => echoes.push(out.packet_out.is_some()),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(echoes, [true, false]);
}
