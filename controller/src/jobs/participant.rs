//! A process that takes part in a job, and the connection to it.

use std::fmt;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::job_event::Event;
use tributary_wire::Rank;

use super::progress::ProgressReport;

/// Events that wait for a member to read them: more than any change of generation sends. A member that leaves this
/// many unread counts as gone.
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

/// Identifies one connection, and so tells two joins of the same participant apart.
pub(crate) type SessionId = u64;

/// A process that takes part in a job, or may soon.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) host: String,
    pub(crate) session: SessionId,
    /// Whether it copes with workers that come and go.
    pub(crate) elastic: bool,
    /// Whether it has been told to start, in this life of its process.
    pub(crate) started: bool,
    /// Whether it was told that the job goes on without it for as long as its process is degraded.
    pub(crate) detached: bool,
    /// When its stream broke; `None` while it is connected.
    pub(crate) gone: Option<Instant>,
    /// When it was told of a change of generation, until it says that it has changed over.
    pub(crate) behind: Option<Instant>,
    /// The last report of its host on it.
    pub(super) report: Option<ProgressReport>,
    events: Option<mpsc::Sender<v1::JobEvent>>,
    /// The last event it was sent; sent again when it comes back.
    told: Option<Event>,
}

impl Participant {
    /// A process that has just joined, and the stream of its events.
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

    /// A participant whose job was running when the controller stopped: it has to come back by itself.
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

    /// Reconnects it; sends its last event again, or else `present`.
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

    /// Whether it could be let into a running job: it is connected and not in.
    pub(crate) fn waits_to_come_in(&self) -> bool {
        self.is_here() && self.elastic && !self.started
    }

    /// Tells it that the job goes on without it for as long as its process is degraded; it stays connected.
    pub(crate) fn detach(&mut self, detached: v1::JobDetached) {
        (self.started, self.detached) = (false, true);
        self.tell(Event::Detached(detached));
    }

    /// Whether its stream is open.
    pub(crate) fn is_here(&self) -> bool {
        self.events.is_some()
    }

    /// Notes that its stream has broken.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.events = None;
        self.gone.get_or_insert(now);
    }

    /// Sends it an event, again when it comes back if it is away.
    pub(crate) fn tell(&mut self, event: Event) {
        self.told = Some(match event.clone() {
            // A participant that comes back and goes on has started.
            Event::Start(config) => Event::Change(config),
            event => event,
        });
        let Some(events) = &self.events else { return };
        if events.try_send(v1::JobEvent { event: Some(event) }).is_err() {
            // Without a sender its stream ends after the unread events.
            self.events = None;
        }
    }

    /// Sends it a last event, after which its stream ends.
    pub(crate) fn dismiss(mut self, event: Event) {
        self.tell(event);
    }
}
