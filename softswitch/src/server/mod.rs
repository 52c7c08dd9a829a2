//! The P4Runtime server: what a controller sees of the switch.
//!
//! It answers as simple_switch_grpc does, error codes included, with what that one leaves open or gets wrong
//! done as the P4Runtime specification says:
//! - a device id that is not ours is NOT_FOUND, everywhere;
//! - only the primary may write, also while nobody is connected; an election id of 0 never is primary;
//! - a full table is RESOURCE_EXHAUSTED and an index that is not there OUT_OF_RANGE, not UNKNOWN;
//! - a byte string may have leading zeros but may not be empty; what is read is canonical;
//! - a packet-out that can't be sent is reported, also to a controller that is not primary;
//! - multicast groups really are gone after a commit: BMv2's data plane keeps them where P4Runtime can't see.

mod arbitration;
mod carry_over;
mod convert;
mod device;
mod error;
#[cfg(test)]
mod interrupted;
mod packet;
mod pipeline_config;
mod read;
mod service;
mod status;
mod stream;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tributary_p4runtime::p4::v1::p4_runtime_server::P4RuntimeServer;

pub use error::ServerError;

use crate::engine::{Control, PacketIns};
use device::Device;
use service::Service;

/// The largest request, as with simple_switch_grpc: a program's JSON can have megabytes.
const MAX_REQUEST: usize = 256 << 20;

/// How long a client that stops in the middle of a request can hold up the end.
const GRACE: Duration = Duration::from_secs(2);

/// A P4Runtime server that listens; it stops when this is dropped.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningServer {
    /// Listens on `address` (port 0: any free one) for controllers of the device `device_id`, on the tokio
    /// runtime that this is called on.
    ///
    /// # Errors
    /// [`ServerError`] names the address, and says when another process has it.
    pub async fn start(
        address: &str,
        device_id: u64,
        control: Control,
        packets: PacketIns,
    ) -> Result<Self, ServerError> {
        let failed = |error| ServerError::listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopping) = watch::channel(false);
        let device = Arc::new(Device::new(device_id, control, stopping.clone()));
        let tasks =
            vec![tokio::spawn(deliver(device.clone(), packets)), tokio::spawn(serve(listener, device))];
        tracing::info!(%address, device_id, "P4Runtime server listens");
        Ok(Self { address, stop, tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all sessions and waits, but not long, until requests under way are answered.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        for mut task in std::mem::take(&mut self.tasks) {
            // A task that panicked has ended, too.
            if tokio::time::timeout(GRACE, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

async fn serve(listener: TcpListener, device: Arc<Device>) {
    let mut stopping = device.stopping.clone();
    let service = P4RuntimeServer::new(Service::new(device)).max_decoding_message_size(MAX_REQUEST);
    let stopped = async move {
        // An error means that the handle is gone, which is a stop as well.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let connections = TcpListenerStream::new(listener);
    let served =
        Server::builder().tcp_nodelay(true).serve_with_incoming_shutdown(service, connections, stopped).await;
    if let Err(error) = served {
        tracing::error!(%error, "P4Runtime server failed");
    }
}

async fn deliver(device: Arc<Device>, packets: PacketIns) {
    let mut stopping = device.stopping.clone();
    tokio::select! {
        () = device.deliver_packets(packets) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}
