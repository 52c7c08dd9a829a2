//! A process that takes part in a job, and the connection to it.

use std::fmt;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::job_event::Event;
use tributary_wire::Rank;

use super::progress_report::ProgressReport;

/// Capacity of a member's event channel: more events than any change of generation sends.
/// A member that leaves this many events unread counts as gone.
const EVENTS_PER_MEMBER: usize = 64;

/// Identifies a participant of a job. Workers sort before servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ParticipantId {
    /// The worker of this rank.
    Worker(Rank),
    /// The server on this host.
    Server(String),
}

impl fmt::Display for ParticipantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker(rank) => write!(f, "rank {rank}"),
            Self::Server(host) => write!(f, "server {host}"),
        }
    }
}

/// Identifies one connection, and so distinguishes two joins of the same participant.
pub(crate) type SessionId = u64;

/// A process that takes part in a job, or may soon.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) host: String,
    pub(crate) session: SessionId,
    /// True if the process supports workers that join and leave.
    pub(crate) elastic: bool,
    /// True if the controller has sent the process its start event, in this life of the process.
    pub(crate) started: bool,
    /// True if the job continues without the process for as long as it is degraded, and the process was
    /// notified.
    pub(crate) detached: bool,
    /// The time at which its stream broke; `None` while it is connected.
    pub(crate) gone: Option<Instant>,
    /// The time at which the controller sent a change of generation; `None` once the
    /// participant has changed over.
    pub(crate) behind: Option<Instant>,
    /// The last report that its host sent on it.
    pub(super) report: Option<ProgressReport>,
    events: Option<mpsc::Sender<v1::JobEvent>>,
    /// The last event that the controller sent to it; sent again when it comes back.
    told: Option<Event>,
}

impl Participant {
    /// Creates a process that has just joined, and the stream of its events.
    pub(crate) fn new(host: &str, session: SessionId, elastic: bool) -> (Self, mpsc::Receiver<v1::JobEvent>) {
        let (sender, receiver) = mpsc::channel(EVENTS_PER_MEMBER);
        let participant = Self {
            host: host.to_owned(),
            session,
            elastic,
            started: false,
            detached: false,
            gone: None,
            behind: None,
            report: None,
            events: Some(sender),
            told: None,
        };
        (participant, receiver)
    }

    /// Creates a participant of a job that was running when the controller stopped.
    /// It must reconnect by itself.
    pub(crate) fn awaited(host: &str, elastic: bool, now: Instant) -> Self {
        Self {
            host: host.to_owned(),
            session: 0,
            elastic,
            started: true,
            detached: false,
            gone: Some(now),
            behind: None,
            report: None,
            events: None,
            told: None,
        }
    }

    /// Reconnects the participant, and sends its last event again, or `present` if there was none.
    pub(crate) fn come_back(
        &mut self,
        session: SessionId,
        present: Option<Event>,
    ) -> mpsc::Receiver<v1::JobEvent> {
        let (sender, receiver) = mpsc::channel(EVENTS_PER_MEMBER);
        self.session = session;
        (self.gone, self.behind) = (None, None);
        self.events = Some(sender);
        if let Some(event) = self.told.take().or(present) {
            self.tell(event);
        }
        receiver
    }

    /// Returns true if a running job could admit the process: it is connected, elastic and not a member.
    pub(crate) fn waits_to_come_in(&self) -> bool {
        self.is_here() && self.elastic && !self.started
    }

    /// Notifies the process that the job continues without it while the process is degraded. It stays
    /// connected.
    pub(crate) fn detach(&mut self, detached: v1::JobDetached) {
        (self.started, self.detached) = (false, true);
        self.tell(Event::Detached(detached));
    }

    /// Returns true if its stream is open.
    pub(crate) fn is_here(&self) -> bool {
        self.events.is_some()
    }

    /// Notes that its stream has broken.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.events = None;
        self.gone.get_or_insert(now);
    }

    /// Sends the participant an event.
    /// If the participant is away, it receives the event when it comes back.
    pub(crate) fn tell(&mut self, event: Event) {
        self.told = Some(match event.clone() {
            // A participant that comes back and continues has started.
            Event::Start(config) => Event::Change(config),
            event => event,
        });
        let Some(events) = &self.events else { return };
        if events.try_send(v1::JobEvent { event: Some(event) }).is_err() {
            // Without a sender, the stream ends after the unread events.
            self.events = None;
        }
    }

    /// Sends the participant a last event, after which its stream ends.
    pub(crate) fn dismiss(mut self, event: Event) {
        self.tell(event);
    }
}
