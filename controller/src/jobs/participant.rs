//! A process that takes part in a job, and the connection to it.

use tokio::sync::mpsc;
use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::job_event::Event;
use tributary_wire::Rank;

use super::progress_report::ProgressReport;

/// Capacity of a member's event channel. It exceeds the number of events that a change of generation
/// sends.
/// A member that leaves this number of events unread counts as gone.
const EVENTS_PER_MEMBER: usize = 64;

/// Identifies a participant of a job. Workers order before servers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ParticipantId {
    /// The worker with this rank.
    Worker(Rank),
    /// The server on this host.
    Server(String),
}

/// Identifies one connection of a participant, to distinguish it from other connections of the
/// participant.
pub(crate) type SessionId = u64;

/// A process that takes part in a job, or may join it later.
#[derive(Debug)]
pub(crate) struct Participant {
    pub(crate) host: String,
    pub(crate) session: SessionId,
    /// True if the process supports workers that join and leave.
    pub(crate) elastic: bool,
    /// True if the controller has sent this process its start event. A restarted process counts as another
    /// process.
    pub(crate) started: bool,
    /// True if the controller has notified the process that the job continues without it while it is
    /// degraded.
    pub(crate) detached: bool,
    /// The time at which the process's stream broke; `None` while the process is connected.
    pub(crate) gone: Option<Instant>,
    /// The time at which the controller sent a change of generation that the participant has not yet
    /// carried out.
    pub(crate) behind: Option<Instant>,
    /// The last report of the host on this process.
    pub(super) report: Option<ProgressReport>,
    events: Option<mpsc::Sender<v1::JobEvent>>,
    /// The last event for this process. The controller sends it again when the process reconnects.
    told: Option<Event>,
}

impl Participant {
    /// Creates a participant for a process that has just joined, and the stream of its events.
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

    /// Creates a participant of a job that was running when the last controller stopped.
    /// Its process must reconnect by itself.
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

    /// Reconnects the participant. Sends its last event again, or `present` if there is none.
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

    /// Returns true if a running job could admit the process: it is connected, elastic, and not yet a
    /// member.
    pub(crate) fn waits_to_come_in(&self) -> bool {
        self.is_here() && self.elastic && !self.started
    }

    /// Notifies the process that the job continues without it while it is degraded. The process stays
    /// connected.
    pub(crate) fn detach(&mut self, detached: v1::JobDetached) {
        (self.started, self.detached) = (false, true);
        self.tell(Event::Detached(detached));
    }

    /// Returns true if the participant's stream is open.
    pub(crate) fn is_here(&self) -> bool {
        self.events.is_some()
    }

    /// Notes that the participant's stream has broken.
    pub(crate) fn lose(&mut self, now: Instant) {
        self.events = None;
        self.gone.get_or_insert(now);
    }

    /// Sends the participant an event.
    /// If the participant is disconnected, it receives the event when it reconnects.
    pub(crate) fn tell(&mut self, event: Event) {
        self.told = Some(match event.clone() {
            // A participant that receives this event after a reconnection has already started, so it gets a Change.
            Event::Start(config) => Event::Change(config),
            event => event,
        });
        let Some(events) = &self.events else { return };
        if events.try_send(v1::JobEvent { event: Some(event) }).is_err() {
            // The stream ends after the unread events, because the channel then has no sender.
            self.events = None;
        }
    }

    /// Sends the participant a last event; then its stream ends.
    pub(crate) fn dismiss(mut self, event: Event) {
        self.tell(event);
    }
}
