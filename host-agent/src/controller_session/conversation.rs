//! One stream between a daemon and its controller, from the Hello message to the stream's end.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::v1::host_order::Order;
use tributary_api::v1::host_report::Report;
use tributary_transport::{ConnectError, innermost};
use tributary_wire::Probe;

use super::cable::{HeardProbe, Prober, WantedProbes};
use super::condition::condition;
use super::config::ControllerSessionConfig;
use super::duties::{Duties, Progress};

/// Reports that may wait to be sent.
const REPORTS: usize = 4;
/// Longest time between two heartbeats. The daemon sends one earlier if its progress has changed.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time between two checks for changes, unless probes are more frequent.
const LOOK: Duration = Duration::from_millis(200);
/// Least time between two attempts to start a prober.
const RETRY: Duration = Duration::from_secs(1);

/// The reason why a conversation is over.
pub(super) enum End {
    /// The controller is unreachable.
    Unreachable(String),
    /// The controller refuses this daemon, or one side does not trust the other; the text names the side.
    Refused(String),
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        let reason = match std::error::Error::source(&status) {
            Some(cause) => innermost(cause),
            None => status.message().to_owned(),
        };
        let refused = |why: String| Self::Refused(format!("the controller refuses this host: {why}"));
        match status.code() {
            Code::NotFound | Code::PermissionDenied | Code::FailedPrecondition => refused(reason),
            // A controller of another version does not have the call.
            Code::Unimplemented => Self::Refused(
                "the controller is of another version than this daemon: install the same version on all machines"
                    .to_owned(),
            ),
            _ => Self::Unreachable(reason),
        }
    }
}

impl From<ConnectError> for End {
    fn from(error: ConnectError) -> Self {
        let reason = error.to_string();
        match error {
            ConnectError::NoTrust { .. } => Self::Refused(reason),
            ConnectError::Unreachable { .. }
            | ConnectError::NoDescriptor { .. }
            | ConnectError::BadAddress(_) => Self::Unreachable(reason),
        }
    }
}

/// A daemon that the controller has welcomed.
pub(super) struct Conversation<'a> {
    config: &'a ControllerSessionConfig,
    duties: &'a dyn Duties,
    reports: mpsc::Sender<v1::HostReport>,
    orders: Streaming<v1::HostOrder>,
    looks: Interval,
    probing: Probing,
    /// Probes received since the last heartbeat, each with the length of its longest frame.
    heard: BTreeMap<Probe, usize>,
    /// The progress reported in the last heartbeat, and its time.
    said: (Progress, Instant),
    /// The time at which the daemon last reported the host's condition.
    told: Option<Instant>,
}

impl<'a> Conversation<'a> {
    /// Sends this host's Hello, and waits for the controller's welcome.
    pub(super) async fn begin(
        config: &'a ControllerSessionConfig,
        duties: &'a dyn Duties,
    ) -> Result<Self, End> {
        let mut client = ControllerClient::new(config.controller.connect().await?);
        let (reports, outgoing) = mpsc::channel(REPORTS);
        let hello = v1::Hello {
            host: config.host.clone(),
            version: config.version.clone(),
            mac: config.cable.as_ref().map(|cable| cable.address.octets().to_vec()).unwrap_or_default(),
            serves: config.serves,
            works: config.works,
            processors: thread::available_parallelism().map_or(0, |processors| processors.get() as u32),
        };
        // The channel has room for the first report.
        let _ = reports.try_send(v1::HostReport { report: Some(Report::Hello(hello)) });
        let mut orders = client.open_session(ReceiverStream::new(outgoing)).await?.into_inner();
        let first = orders.message().await?.and_then(|order| order.order);
        let Some(Order::Welcome(welcome)) = first else {
            return Err(End::Unreachable(
                "it does not welcome this host: do both have the same version?".into(),
            ));
        };
        let probing = Probing::new(&welcome);
        let looks = probing.looks();
        let (heard, said) = (BTreeMap::new(), (Progress::default(), Instant::now()));
        Ok(Self { config, duties, reports, orders, looks, probing, heard, said, told: None })
    }

    /// Sends reports to the controller and carries out its orders until the stream ends. Returns the
    /// reason, and the probing, which continues until the caller drops it.
    pub(super) async fn go_on(mut self) -> (End, Probing) {
        let end = self.talk().await;
        (end, self.probing)
    }

    async fn talk(&mut self) -> End {
        loop {
            tokio::select! {
                order = self.orders.message() => match order {
                    Ok(Some(v1::HostOrder { order: Some(order) })) => self.take(order),
                    // This version does not know the order.
                    Ok(Some(v1::HostOrder { order: None })) => {
                        tracing::warn!("the controller wants something unknown: update this daemon");
                    }
                    Ok(None) => return End::Unreachable("it has closed the connection".to_owned()),
                    Err(status) => return status.into(),
                },
                heard = self.probing.hear() => {
                    if let Some(HeardProbe { probe, bytes }) = heard {
                        let longest = self.heard.entry(probe).or_default();
                        *longest = bytes.max(*longest);
                    }
                }
                _ = self.looks.tick() => self.report().await,
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Welcome(welcome) => {
                self.probing = Probing::new(&welcome);
                self.looks = self.probing.looks();
            }
            Order::Serve(v1::Serve { job, token }) => self.duties.serve(&job, &token),
        }
    }

    /// Sends a heartbeat if the progress has changed, probes have arrived, or a heartbeat is due.
    async fn report(&mut self) {
        self.probing.keep_up(self.config);
        let progress = self.duties.progress().await;
        let (said, at) = &self.said;
        if self.heard.is_empty() && *said == progress && at.elapsed() < HEARTBEAT {
            return;
        }
        let heard = |(probe, bytes): (&Probe, &usize)| v1::HeardProbe {
            node: probe.node.get().into(),
            port: probe.port.into(),
            bytes: u32::try_from(*bytes).unwrap_or(u32::MAX),
        };
        let probes = self.heard.iter().map(heard).collect();
        let due = self.told.is_none_or(|told| told.elapsed() >= HEARTBEAT);
        let condition = due.then(|| condition(self.config));
        let Progress { jobs, served } = progress.clone();
        let heartbeat = v1::Heartbeat { probes, jobs, served, condition };
        let report = v1::HostReport { report: Some(Report::Heartbeat(heartbeat)) };
        // If the queue is full because the controller is slow, the next report includes the probes.
        if self.reports.try_send(report).is_ok() {
            self.heard.clear();
            self.said = (progress, Instant::now());
            self.told = if due { Some(Instant::now()) } else { self.told };
        }
    }
}

/// The prober of this host's cable, and the probes that the controller requests.
pub(super) struct Probing {
    /// The probes that the controller requests; `None` if it requests none.
    wanted: Option<WantedProbes>,
    prober: Option<Prober>,
    /// The time at which a prober was last started.
    tried: Option<Instant>,
}

impl Probing {
    fn new(welcome: &v1::Welcome) -> Self {
        Self { wanted: WantedProbes::of(welcome), prober: None, tried: None }
    }

    /// Returns the interval at which the conversation checks for changes.
    fn looks(&self) -> Interval {
        let mut looks = interval(self.wanted.map_or(LOOK, |wanted| wanted.interval.min(LOOK)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        looks
    }

    /// Starts a prober if the controller wants probes and no prober runs.
    fn keep_up(&mut self, config: &ControllerSessionConfig) {
        let (Some(wanted), Some(cable)) = (self.wanted, &config.cable) else { return };
        if self.prober.is_some() || self.tried.is_some_and(|tried| tried.elapsed() < RETRY) {
            return;
        }
        self.tried = Some(Instant::now());
        match Prober::start(cable, wanted) {
            Ok(prober) => self.prober = Some(prober),
            Err(error) => tracing::warn!(%error, "cannot probe this host's cable"),
        }
    }

    /// Waits for the next received probe; `None` if the prober has ended. Waits forever if no prober
    /// runs.
    async fn hear(&mut self) -> Option<HeardProbe> {
        let Some(prober) = &mut self.prober else { return std::future::pending().await };
        let heard = prober.hear().await;
        if heard.is_none() {
            self.prober = None;
        }
        heard
    }
}
