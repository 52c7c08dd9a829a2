//! Starting and stopping the controller.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::transport::Server;
use tributary_p4runtime::Target;
use tributary_planner::widest_slices;
use tributary_topology::{NodeKey, Topology};
use tributary_transport::{incoming, innermost};

use crate::access::{Access, ControllerTls};
use crate::error::{StartError, SwitchError};
use crate::forwarding;
use crate::jobs::JobKey;
use crate::journal::{Journal, LoadedJob};
use crate::manager::{Manager, watch_loads, watch_queue};
use crate::observer::Observer;
use crate::pipeline::{Pipeline, PipelineSource};
use crate::quotas::Quotas;
use crate::reconciler;
use crate::service::Service;
use crate::sizes::by_size;
use crate::state::{ControllerState, Reload};
use crate::switch::{Common, Elections, Switch};
use crate::watch;

/// The interval of HTTP/2 keep-alive pings. A connection counts as lost if the peer does not answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections allowed for each host. Its agent has one, and may open another before the loss of the
/// first is detected. Tools open further ones for a short time.
const CONNECTIONS_PER_HOST: usize = 4;
const OTHER_CONNECTIONS: usize = 256;
/// Calls of one connection that the controller handles at the same time; further calls wait.
/// Open streams do not count.
const UNANSWERED: usize = 8;
/// Open calls of one connection, including streams. A host's agent has one stream for each of its jobs.
const STREAMS: u32 = 256;
/// The maximum size of a call's headers, in bytes.
const HEADER_BYTES: u32 = 16 << 10;
/// Packets from switches that are buffered for a slow reader in the controller. Beyond this number, the
/// oldest packets are lost.
const PACKETS_KEPT: usize = 1024;
/// The time that clients may take to disconnect when the controller stops.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// The configuration of a controller.
#[derive(Debug, Clone)]
pub struct ControllerConfig {
    /// The network.
    pub topology: Topology,
    /// The P4Runtime addresses of switches, by their names in the topology.
    ///
    /// For a switch that is not listed, the topology gives the address. A switch without any address is not managed,
    /// and must not be programmable.
    pub switches: BTreeMap<String, SwitchAddress>,
    /// The compiled P4 program for the switches.
    pub pipeline: PipelineSource,
    /// The address on which the controller listens for agents. Port 0 selects any free port.
    pub listen: SocketAddr,
    /// TLS settings with which the controller and its clients authenticate each other.
    ///
    /// Without them, all connections are in plain text, and the controller accepts any host name that a client claims.
    pub tls: Option<ControllerTls>,
    /// The time that a switch may take to carry out one order before it counts as unreachable.
    ///
    /// At the start, the controller waits at most this time for the first connections to all switches.
    pub switch_patience: Duration,
    /// The folder of the journal, from which a restarted controller continues the jobs.
    /// Without it, the jobs end with the controller. Requires the feature `journal`.
    pub state: Option<PathBuf>,
    /// The limits for each creator of jobs.
    pub quotas: Quotas,
}

/// The P4Runtime address of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchAddress {
    /// The address in the form `host:port`.
    pub address: String,
    /// The P4Runtime device id of the switch. It equals the node id if the address comes from the topology.
    pub device_id: u64,
}

/// The controller.
#[derive(Debug)]
pub struct Controller;

impl Controller {
    /// Starts the controller: resets all reachable switches to their state without jobs, and serves the
    /// API.
    ///
    /// A switch that is unreachable or refuses a change is logged and retried indefinitely. It does not affect the
    /// other switches. [`Observer::switches`] reports its state. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`]: for example, a switch has no address, the pipeline is not ours, a port is taken, or the journal
    /// is unusable.
    pub async fn start(config: ControllerConfig) -> Result<RunningController, StartError> {
        let pipeline = Arc::new(Pipeline::load(&config.pipeline, widest_slices(&config.topology))?);
        let topology = Arc::new(config.topology);
        let targets = targets(&topology, &config.switches)?;
        let (tls, access) = match config.tls {
            Some(tls) => (Some(tls.server), Access::by_name(tls.operators, &topology)?),
            None => {
                if !config.listen.ip().is_loopback() {
                    tracing::warn!(
                        listen = %config.listen,
                        "in plain text, and hosts are believed who they say they are: give --tls-cert, --tls-key \
                         and --tls-client-ca, or keep this address on a management network"
                    );
                }
                (None, Access::Open)
            }
        };
        let address = config.listen;
        let listener =
            TcpListener::bind(address).await.map_err(|reason| StartError::Listen { address, reason })?;
        let api_addr = listener.local_addr().map_err(|reason| StartError::Listen { address, reason })?;

        let connections = CONNECTIONS_PER_HOST * topology.hosts().count() + OTHER_CONNECTIONS;
        let tree = topology.forwarding();
        let base = targets.keys().map(|key| (*key, forwarding::base_state(&topology, &tree, *key)));
        let mut state = ControllerState::new(topology.clone(), base.collect(), pipeline.capacity);
        state.quotas = config.quotas;
        let journal = config.state.as_deref().map(Journal::open).transpose()?.unwrap_or_default();
        let taken_up = take_up(&mut state, journal.load(&topology)?);
        let common = Common {
            pipeline,
            elections: Elections::now(),
            patience: config.switch_patience,
            packet_ins: broadcast::Sender::new(PACKETS_KEPT),
            journal_is_new: journal.is_new(),
        };
        let switch = |(key, target)| (key, Switch::start(key, target, state.want(key), &common));
        let switches = targets.into_iter().map(switch).collect();
        let manager = Manager::start(topology, journal, state, switches, common.packet_ins);
        manager.first_contact(config.switch_patience).await;
        watch::start(&manager);
        taken_up.into_iter().for_each(|key| reconciler::start(&manager, key));
        tokio::spawn(watch_loads(Arc::downgrade(&manager)));
        tokio::spawn(watch_queue(Arc::downgrade(&manager)));

        let (stop, stopped) = oneshot::channel::<()>();
        let service = Service { manager: manager.clone(), access };
        let serving = Server::builder()
            .concurrency_limit_per_connection(UNANSWERED)
            .max_concurrent_streams(STREAMS)
            .http2_max_header_list_size(HEADER_BYTES)
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .serve_with_incoming_shutdown(
                by_size(service),
                incoming(listener, tls, connections),
                async move {
                    // The sender is also dropped when the controller stops, so an error here means the same as a
                    // message.
                    let _ = stopped.await;
                },
            );
        let server = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(error = innermost(&error), "the API is down");
            }
        });
        tracing::info!(%api_addr, "controller is up");
        Ok(RunningController { api_addr, manager, stop: Some(stop), server })
    }
}

/// A running controller.
/// If it has a journal, stopping it leaves the jobs and their tables to the next controller. If not, dropping it fails
/// the jobs that are alive but leaves their tables in the switches; [`RunningController::shutdown`] also withdraws the
/// tables.
#[derive(Debug)]
pub struct RunningController {
    api_addr: SocketAddr,
    manager: Arc<Manager>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl RunningController {
    /// Returns a view of the controller's jobs and of the counters of its switches.
    pub fn observer(&self) -> Observer {
        Observer::new(&self.manager)
    }

    /// Applies another version of the topology while jobs run, as far as possible.
    /// It can add hosts and links, and change rates, loads, roles and numbers of slots. Parts on which jobs or switches
    /// depend change only when the controller is restarted.
    pub fn reload_topology(&self, newer: &Topology) -> Reload {
        self.manager.reload_topology(newer)
    }

    /// Returns the address at which agents reach the controller.
    pub fn api_addr(&self) -> SocketAddr {
        self.api_addr
    }

    /// Stops the controller. Without a journal, it also fails the jobs that are alive and withdraws their
    /// tables.
    /// Ordinary forwarding stays.
    ///
    /// # Errors
    /// [`SwitchError`]: the tables of a switch could not be withdrawn. The controller has stopped nevertheless, and the
    /// next controller will withdraw them.
    pub async fn shutdown(mut self) -> Result<(), SwitchError> {
        let withdrawn = if self.manager.journal.is_kept() { Ok(()) } else { self.manager.stop().await };
        self.manager.state().hang_up();
        self.stop = None;
        if tokio::time::timeout(STOP_PATIENCE, &mut self.server).await.is_err() {
            self.server.abort();
        }
        // Tasks that are still ending keep the manager, and must not keep the file open for the next controller.
        let manager = Arc::clone(&self.manager);
        let closed = tokio::task::spawn_blocking(move || manager.journal.close());
        if tokio::time::timeout(STOP_PATIENCE, closed).await.is_err() {
            tracing::warn!("the disk with the journal of jobs does not answer");
        }
        withdrawn
    }
}

impl Drop for RunningController {
    fn drop(&mut self) {
        // Failing the jobs ends the members' streams. The server can stop gracefully only after these streams have
        // ended.
        if !self.manager.journal.is_kept() {
            self.manager.state().jobs.fail_all();
        }
        self.manager.state().hang_up();
    }
}

/// Takes up the jobs that an earlier controller has stored in the journal; returns their keys.
/// A job that no longer fits is logged and stays on disk, for a controller with the right topology.
fn take_up(state: &mut ControllerState, kept: Vec<LoadedJob>) -> Vec<JobKey> {
    let now = Instant::now();
    let mut taken_up = Vec::new();
    for kept in kept {
        let (key, job) = (kept.key, kept.name.clone());
        match state.take_up(kept, now) {
            Ok(()) => {
                tracing::info!(job, key, "taken up from an earlier controller");
                taken_up.push(key);
            }
            Err(reason) => {
                tracing::error!(job, key, reason, "cannot be taken up: it is left on disk as it is");
            }
        }
    }
    taken_up
}

/// Returns the switches to manage, in the order of the topology.
fn targets(
    topology: &Topology,
    addresses: &BTreeMap<String, SwitchAddress>,
) -> Result<BTreeMap<NodeKey, Target>, StartError> {
    let known = |name: &String| topology.switches().any(|(_, node, _)| node.name == *name);
    if let Some(name) = addresses.keys().find(|name| !known(name)) {
        return Err(StartError::UnknownSwitch { switch: name.clone(), topology: topology.name().to_owned() });
    }
    let mut targets = BTreeMap::new();
    for (key, node, switch) in topology.switches() {
        let own = switch.p4runtime.clone();
        let own = own.map(|address| SwitchAddress { address, device_id: node.id.get().into() });
        match addresses.get(&node.name).cloned().or(own) {
            Some(SwitchAddress { address, device_id }) => {
                let target = Target { name: node.name.clone(), address, device_id };
                target.check()?;
                targets.insert(key, target);
            }
            None if switch.programmable => {
                return Err(StartError::NoAddress { switch: node.name.clone() });
            }
            None => {}
        }
    }
    Ok(targets)
}
