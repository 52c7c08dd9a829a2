//! The P4Runtime server, through which controllers access the switch.
//!
//! It answers as simple_switch_grpc does, error codes included. Where simple_switch_grpc is wrong
//! or undefined, it follows the P4Runtime specification:
//! - a request for another device id fails with NOT_FOUND, in all calls;
//! - only the primary of a role may write, even while no controller is connected; an election id of
//!   0 never is primary;
//! - a full table is RESOURCE_EXHAUSTED, and an index out of range OUT_OF_RANGE, not UNKNOWN;
//! - a byte string may have leading zeros but may not be empty; a byte string in an answer is
//!   canonical;
//! - a packet-out that can't be sent is reported, also to a controller that is not primary;
//! - multicast groups are removed at a commit, while BMv2's data plane keeps them without reporting
//!   them.

mod answer;
mod arbitration;
mod carry_over;
mod convert;
mod device;
mod device_config;
mod entities;
mod error;
#[cfg(test)]
mod interrupted;
mod loaded;
mod notifications;
mod operation;
mod packet;
mod pipeline_config;
mod query;
mod read;
mod readers;
pub mod requests;
mod roles;
mod service;
mod sizes;
mod status;
mod stream;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tributary_transport::incoming;

pub use error::ServerError;
pub use loaded::Loaded;
pub use status::Refusal;

use crate::engine::{Control, Notifications, PacketIns};
use device::Device;
pub(crate) use device::DeviceProgram;
use service::Service;
use sizes::by_size;

/// The maximum number of connections. It is larger than the number of possible controllers.
const CONNECTIONS: usize = 64;
/// The maximum number of calls of one connection that may be open, streams included.
const STREAMS: u32 = 64;
/// The maximum number of calls of one connection that are handled at once; further calls wait.
const UNANSWERED: usize = 4;
/// The maximum number of bytes of a call's headers.
/// The two windows below limit the unread bytes of a call and of a connection.
const HEADER_BYTES: u32 = 8 << 10;
const CALL_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Time that a call may take, including the time in which the client sends it.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
/// Time after which a client that sends nothing is pinged.
///
/// It counts as disconnected if it does not answer within the same time again.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Time for which a client that stops in the middle of a request can delay the server's end.
const GRACE: Duration = Duration::from_secs(2);

/// A running P4Runtime server; it stops when this is dropped.
#[derive(Debug)]
pub struct RunningServer {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl RunningServer {
    /// Listens on `address` for controllers of the device `device_id`. Port 0 means any free port.
    ///
    /// The controllers receive the `packets` and `notifications` of the switch. `program` is the
    /// program with which the switch was started, if any. The server runs on the current tokio
    /// runtime.
    ///
    /// # Errors
    /// [`ServerError`] names the address, and reports if another process has it.
    pub(crate) async fn start(
        address: &str,
        device_id: u64,
        control: Control,
        program: Option<Arc<DeviceProgram>>,
        packets: PacketIns,
        notifications: Option<Notifications>,
    ) -> Result<Self, ServerError> {
        let failed = |error| ServerError::listen(address, error);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopping) = watch::channel(false);
        let device = Arc::new(Device::new(device_id, control, program, stopping.clone()));
        let mut tasks = vec![tokio::spawn(deliver(device.clone(), packets))];
        tasks.extend(notifications.map(|notifications| tokio::spawn(notify(device.clone(), notifications))));
        tasks.push(tokio::spawn(serve(listener, device)));
        tracing::info!(%address, device_id, "P4Runtime server listens");
        Ok(Self { address, stop, tasks })
    }

    /// Returns the address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends all sessions and waits briefly for the answers to pending requests.
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
    let service = by_size(Service::new(device));
    let stopped = async move {
        // An error means that the handle was dropped, which also stops the server.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    };
    let served = Server::builder()
        .timeout(CALL_PATIENCE)
        .concurrency_limit_per_connection(UNANSWERED)
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(CALL_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_max_header_list_size(HEADER_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .serve_with_incoming_shutdown(service, incoming(listener, None, CONNECTIONS), stopped)
        .await;
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

async fn notify(device: Arc<Device>, notifications: Notifications) {
    let mut stopping = device.stopping.clone();
    tokio::select! {
        () = notifications::deliver(&device, notifications) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}
