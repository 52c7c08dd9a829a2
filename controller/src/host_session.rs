//! The session of a host's daemon: the call `OpenSession`, from its first report to its last.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_stream::Stream;
use tonic::{Status, Streaming};
use tributary_api::v1;
use tributary_api::v1::EventKind;
use tributary_api::v1::host_order::Order;
use tributary_api::v1::host_report::Report;
use tributary_topology::NodeKey;

use crate::clock;
use crate::hosts::{Daemon, HostSessionId};
use crate::liveness;
use crate::manager::Manager;

/// The time in which a daemon must send its first report, the Hello, before it is disconnected.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

/// Receives and checks a daemon's first report, and opens a session for the daemon.
pub(crate) async fn open(
    manager: &Arc<Manager>,
    mut reports: Streaming<v1::HostReport>,
    check: impl Fn(&str) -> Result<(), Status>,
) -> Result<HostSession, Status> {
    let first = timeout(HELLO_PATIENCE, reports.message()).await;
    let first =
        first.map_err(|_| Status::deadline_exceeded("who is it? the first report did not come"))??;
    let Some(Report::Hello(hello)) = first.and_then(|report| report.report) else {
        return Err(Status::invalid_argument("the first report has to be a Hello"));
    };
    let host = check(&hello.host).and_then(|()| check_host(manager, &hello));
    let host = host.inspect_err(|status| refuse(manager, &hello.host, status))?;
    let (id, orders) = {
        let mut state = manager.state();
        let now = Instant::now();
        let (id, orders) = state.hosts.enter(&hello, now);
        state.health.touch(now);
        state.look_at_all();
        (id, orders)
    };
    tracing::info!(
        host = hello.host,
        version = hello.version,
        serves = hello.serves,
        works = hello.works,
        "a daemon has connected"
    );
    let what = trade(hello.works);
    manager.events.of_node(EventKind::DaemonCame, &hello.host, &format!("{what} has connected"));
    let session = HostSession { orders, welcome: Some(welcome(manager, host)), manager: manager.clone(), id };
    let listener = Arc::downgrade(manager);
    tokio::spawn(async move {
        // An error means that the daemon has disconnected. The end of its stream of orders shows the same.
        while let Ok(Some(report)) = reports.message().await {
            let Some(manager) = listener.upgrade() else { return };
            if let Some(Report::Heartbeat(mut heartbeat)) = report.report {
                let condition = heartbeat.condition.take();
                manager.state().hosts.hear(id, condition, clock::unix_milliseconds(), Instant::now());
                manager.hear(host, &heartbeat);
            }
        }
    });
    Ok(session)
}

/// Logs the refusal of a daemon, and stores it if the topology has the host, so that users can look up
/// the reason.
fn refuse(manager: &Manager, host: &str, status: &Status) {
    let reason = status.message();
    tracing::warn!(host, reason, "refused a daemon");
    if manager.topology().find(host).is_some_and(|key| manager.topology()[key].host().is_some()) {
        manager.state().hosts.refuse(host, reason);
    }
}

/// Returns the name of a daemon's kind, for messages to users. `works` is true for an agent.
fn trade(works: bool) -> &'static str {
    if works { "its agent" } else { "its aggregation server" }
}

/// Returns the first order to a host, with its node id and the parameters for probing its cable.
fn welcome(manager: &Manager, host: NodeKey) -> v1::HostOrder {
    let (topology, widest) = (manager.topology(), manager.state().capacity.widest);
    let link = topology.neighbours(host).first().map(|via| &topology[via.link]);
    let long_bytes = link.map_or(0, |link| liveness::long_probe_bytes(link, widest));
    let milliseconds = |interval: Duration| u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
    let welcome = v1::Welcome {
        node: topology[host].id.get().into(),
        probe_interval_milliseconds: milliseconds(liveness::PROBE_INTERVAL),
        long_probe_interval_milliseconds: milliseconds(
            liveness::PROBE_INTERVAL * liveness::LONG_PROBES_EVERY,
        ),
        long_probe_bytes: u32::try_from(long_bytes).unwrap_or(0),
    };
    v1::HostOrder { order: Some(Order::Welcome(welcome)) }
}

/// Checks the host name and MAC address in a daemon's Hello, and returns the host.
fn check_host(manager: &Manager, hello: &v1::Hello) -> Result<NodeKey, Status> {
    let v1::Hello { host, mac, .. } = hello;
    let topology = &manager.topology();
    let found = topology.find(host).and_then(|key| Some((key, topology.get(key)?.host()?)));
    let Some((key, node)) = found else {
        let hosts: Vec<_> = topology.hosts().map(|(_, node, _)| node.name.as_str()).collect();
        return Err(Status::not_found(format!(
            "topology {:?} has no host {host:?}; its hosts are {}",
            topology.name(),
            hosts.join(", ")
        )));
    };
    if !mac.is_empty() && mac.as_slice() != node.mac.octets() {
        let shown: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(Status::failed_precondition(format!(
            "host {host:?} has the MAC address {} in topology {:?}, and its interface has {}: name the right \
             interface, or correct one of the two addresses",
            node.mac,
            topology.name(),
            shown.join(":")
        )));
    }
    Ok(key)
}

/// The stream of orders to one daemon. Dropping it removes the daemon.
#[derive(Debug)]
pub(crate) struct HostSession {
    welcome: Option<v1::HostOrder>,
    orders: mpsc::Receiver<v1::HostOrder>,
    manager: Arc<Manager>,
    id: HostSessionId,
}

impl Stream for HostSession {
    type Item = Result<v1::HostOrder, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(welcome) = self.welcome.take() {
            return Poll::Ready(Some(Ok(welcome)));
        }
        self.orders.poll_recv(context).map(|order| order.map(Ok))
    }
}

impl Drop for HostSession {
    fn drop(&mut self) {
        let mut state = self.manager.state();
        if let Some(Daemon { host, works, .. }) = state.hosts.leave(self.id) {
            if state.hosts.of(&host).any(|other| other.works == works) {
                tracing::info!(host, "an earlier connection of a connected daemon has ended");
            } else {
                tracing::info!(host, "a daemon is gone");
                self.manager.events.of_node(
                    EventKind::DaemonWent,
                    &host,
                    &format!("{} is gone", trade(works)),
                );
            }
        }
        state.look_at_all();
    }
}
