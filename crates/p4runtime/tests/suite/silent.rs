//! A switch that answers the claim to be its controller, and then falls silent.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tributary_p4runtime::p4::v1::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use tributary_p4runtime::p4::v1::{self as message, stream_message_response::Update};
use tributary_p4runtime::session::Mastership;
use tributary_p4runtime::{Session, SessionError, Target};

struct Silent;

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl P4Runtime for Silent {
    type ReadStream = Responses<message::ReadResponse>;
    type StreamChannelStream = Responses<message::StreamMessageResponse>;

    async fn write(
        &self,
        _: Request<message::WriteRequest>,
    ) -> Result<Response<message::WriteResponse>, Status> {
        pending().await
    }

    /// Starts to answer, and never ends.
    async fn read(&self, _: Request<message::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let first = tokio_stream::once(Ok(message::ReadResponse::default()));
        Ok(Response::new(Box::pin(first.chain(tokio_stream::pending()))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        _: Request<message::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<message::SetForwardingPipelineConfigResponse>, Status> {
        pending().await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<message::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<message::GetForwardingPipelineConfigResponse>, Status> {
        pending().await
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<message::StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let answers = request.into_inner().map(|_| {
            let update = Some(Update::Arbitration(message::MasterArbitrationUpdate::default()));
            Ok(message::StreamMessageResponse { update })
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn capabilities(
        &self,
        _: Request<message::CapabilitiesRequest>,
    ) -> Result<Response<message::CapabilitiesResponse>, Status> {
        pending().await
    }
}

/// A session with a switch that falls silent.
async fn connect() -> Session {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (service, connections) = (P4RuntimeServer::new(Silent), TcpListenerStream::new(listener));
    tokio::spawn(Server::builder().serve_with_incoming(service, connections));
    let target = Target { name: "leaf-1".to_owned(), address, device_id: 0 };
    let session = Session::connect(target, 1, Instant::now() + Duration::from_secs(20)).await.unwrap();
    assert_eq!(*session.mastership().borrow(), Mastership::Primary);
    session
}

#[tokio::test]
async fn a_session_with_a_switch_that_says_nothing_any_more_ends_when_it_is_watched() {
    let mut session = connect().await;
    tokio::time::pause();
    let begin = Instant::now();
    session.watch_silence(Duration::from_secs(1), Duration::from_millis(1500));
    let mut mastership = session.mastership();
    let ended = mastership.wait_for(|state| *state != Mastership::Primary).await.unwrap().clone();
    assert_eq!(ended.to_string(), "its session has ended: it has not answered for 1.5 s");
    // A timer may be late by a millisecond or two.
    assert_eq!(begin.elapsed().as_millis() / 10, 250);
    assert!(!session.is_primary());
}

#[tokio::test]
async fn a_switch_that_hangs_is_named_and_not_waited_for() {
    let session = connect().await;
    // From here on time jumps whenever nothing else happens.
    tokio::time::pause();
    let entity = message::Entity::default();
    let update = message::Update { r#type: 1, entity: Some(entity.clone()) };
    let silence = |what| SessionError::NoAnswer { switch: "leaf-1".to_owned(), what, seconds: 30 };
    assert_eq!(session.write(vec![update]).await, Err(silence("a write")));
    assert_eq!(session.read(vec![entity]).await, Err(silence("a read")));
    assert_eq!(session.running(&[], 0).await, Err(silence("to say what it runs")));
}
