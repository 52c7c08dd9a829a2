//! Packets to and from a BMv2 that has a gRPC service in place of interfaces
//! (`--dp-grpc-server-addr`).
//!
//! One stream carries the packets of all ports, so they come in in the order in which they were
//! sent. A packet that leaves names the packet that caused it. Interfaces provide neither.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, client::Grpc};
use tonic_prost::ProstCodec;

const METHOD: &str = "/p4.bm.DataplaneInterface/PacketStream";
const PATIENCE: Duration = Duration::from_secs(120);
/// Time after which a packet that has not left counts as lost.
const SILENCE: Duration = Duration::from_secs(10);
const KEPT: usize = 1024;

/// A packet in either direction: `PacketStreamRequest` and `PacketStreamResponse` have the same fields.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct StreamPacket {
    /// The packet's id, never 0. A packet that leaves has the id of the packet that came in.
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) device_id: u64,
    #[prost(uint32, tag = "3")]
    pub(crate) port: u32,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) packet: Vec<u8>,
}

/// The only packet stream of a switch.
pub(crate) struct PacketStream {
    device_id: u64,
    outgoing: mpsc::Sender<StreamPacket>,
    incoming: mpsc::Receiver<StreamPacket>,
    reader: JoinHandle<()>,
}

impl PacketStream {
    pub(crate) async fn open(address: SocketAddr, device_id: u64) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        let (outgoing, requests) = mpsc::channel(KEPT);
        let (received, incoming) = mpsc::channel(KEPT);
        // The call returns only with the first packet, because BMv2 sends no headers before.
        let reader = tokio::spawn(async move {
            let mut grpc = Grpc::new(channel);
            grpc.ready().await.unwrap();
            let (path, codec) =
                (PathAndQuery::from_static(METHOD), ProstCodec::<StreamPacket, StreamPacket>::default());
            let call = grpc.streaming(Request::new(ReceiverStream::new(requests)), path, codec);
            let mut packets = call.await.unwrap().into_inner();
            while let Ok(Some(packet)) = packets.message().await {
                if received.send(packet).await.is_err() {
                    break;
                }
            }
        });
        Self { device_id, outgoing, incoming, reader }
    }

    pub(crate) async fn send(&self, id: u64, port: u16, packet: &[u8]) {
        let device_id = self.device_id;
        let packet = StreamPacket { id, device_id, port: port.into(), packet: packet.to_vec() };
        self.outgoing.send(packet).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> StreamPacket {
        tokio::time::timeout(PATIENCE, self.incoming.recv()).await.expect("a packet").expect("the stream")
    }

    /// Returns the next packet; `None` if no further packet leaves.
    pub(crate) async fn next(&mut self) -> Option<StreamPacket> {
        tokio::time::timeout(SILENCE, self.incoming.recv()).await.ok().flatten()
    }
}

impl Drop for PacketStream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
