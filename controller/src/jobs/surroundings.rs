//! What a decision about a job depends on besides the job.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tributary_planner::FabricState;
use tributary_topology::Topology;
use tributary_wire::Rank;

use super::attendee::Place;
use crate::hosts::WORD_PATIENCE;
use crate::liveness::{Health, Standstill};

/// How soon it is looked again whether somebody waits for a result.
pub(super) const STALL_INTERVAL: Duration = Duration::from_millis(200);
/// A probe that came so long after a stream broke was sent after that.
const PROBE_LAG: Duration = Duration::from_millis(50);
/// Without a probe for so long a daemon does not live any more.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// What a decision depends on besides the job.
pub(crate) struct Surroundings<'a> {
    pub(crate) topology: &'a Topology,
    /// What a new structure is built on, with the slots that the job could get beside those that it has: what is only silent
    /// is dead.
    pub(crate) fabric: &'a FabricState,
    /// The same, where what is only silent is alive: what the present structure is judged by, as long as the job's slices
    /// get through.
    pub(crate) trusting_fabric: &'a FabricState,
    pub(crate) health: &'a Health,
    /// What is known of whoever attends to that place of the job, and of its host's daemons.
    pub(crate) signs: &'a dyn Fn(&Place, &str) -> Signs,
    /// Who waits for a result, and is heard by the job's server.
    pub(crate) asking: &'a BTreeSet<Rank>,
    /// Hosts whose daemons could serve.
    pub(crate) serving: &'a dyn Fn(&str) -> bool,
    /// For how long a process of the job has waited for a result, and nothing has come; `None`: none waits for long.
    pub(crate) stalled: Option<Duration>,
    /// For how long all processes of the job have waited for a result, and nothing has come; `None`: one does not wait.
    pub(crate) stuck: Option<Duration>,
    /// When the controller itself could not hear anybody the last time.
    pub(crate) standstill: Option<Standstill>,
    pub(crate) now: Instant,
}

impl Surroundings<'_> {
    /// Since when the daemon attends that came last of a host that may serve; `None`: none does.
    pub(super) fn attends_since(&self, server: &str) -> Option<Instant> {
        (self.signs)(&Place::Server(server.to_owned()), server).attends_since
    }
}

/// What is known of a member and of its host's daemons.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signs {
    /// Since when the one attends that came last; `None`: none does.
    pub(crate) attends_since: Option<Instant>,
    /// When the host's switch heard its probes the last time.
    pub(crate) last_probe: Option<Instant>,
    /// When the controller was told anything the last time.
    pub(crate) last_word: Option<Instant>,
    /// When it was told the last time that the member is at work.
    pub(crate) last_told: Option<Instant>,
}

impl Signs {
    /// Whether a member is at work, though its own connection to the controller is over since `gone`: its daemon still has
    /// one and says so, or has none either, and its switch hears its probes. What comes from a daemon after its connection
    /// is over was on its way before.
    pub(super) fn lives_unheard(&self, gone: Instant, now: Instant) -> bool {
        let is_heard = |told: Instant| told > gone && now < told + WORD_PATIENCE;
        let has_controller = self.attends_since.is_some() && self.last_word.is_some_and(is_heard);
        let is_later = |since: Instant| since > gone + PROBE_LAG;
        match has_controller {
            true => self.last_told.is_some_and(|told| is_later(told) && is_heard(told)),
            false => self.last_probe.is_some_and(|probed| is_later(probed) && now < probed + PROBE_PATIENCE),
        }
    }
}
