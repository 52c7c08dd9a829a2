//! What a decision about a job depends on, besides the job.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use tributary_planner::FabricState;
use tributary_topology::Topology;
use tributary_transport::Standstill;
use tributary_wire::Rank;

use super::participant::ParticipantId;
use crate::hosts::WORD_PATIENCE;
use crate::liveness::Health;

/// How soon a job is looked at again to see whether somebody waits for a result.
pub(super) const STALL_INTERVAL: Duration = Duration::from_millis(200);
/// How long all members of a job may wait for a result in vain before the job moves to new slots: results come many
/// times a second, and whatever is lost is sent again.
pub(super) const STUCK_PATIENCE: Duration = Duration::from_secs(5);
/// A probe heard this long after a stream broke was sent after the break.
const PROBE_LAG: Duration = Duration::from_millis(50);
/// A daemon whose last probe is older than this does not live any more.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// What a decision depends on, besides the job.
pub(crate) struct DecisionInputs<'a> {
    pub(crate) topology: &'a Topology,
    /// The fabric that a new structure is built on, with the slots that the job could get beside those that it has.
    /// Silent parts count as dead.
    pub(crate) fabric: &'a FabricState,
    /// The same with silent parts counted as alive: the present structure is judged by it for as long as the job's
    /// slices get through.
    pub(crate) trusting_fabric: &'a FabricState,
    pub(crate) health: &'a Health,
    /// What is known of a process of the job, and of its host's daemons.
    pub(crate) life_signs: &'a dyn Fn(&ParticipantId, &str) -> LifeSigns,
    /// Ranks that wait for a result and are heard by the job's server.
    pub(crate) asking: &'a BTreeSet<Rank>,
    /// Whether a host's daemon could serve.
    pub(crate) serving: &'a dyn Fn(&str) -> bool,
    /// How long a process of the job has waited for a result in vain; `None`: none has waited long.
    pub(crate) stalled: Option<Duration>,
    /// How long all processes of the job have waited for a result in vain; `None`: one of them does not wait.
    pub(crate) stuck: Option<Duration>,
    /// When the controller itself was last unable to hear anybody.
    pub(crate) standstill: Option<Standstill>,
    pub(crate) now: Instant,
}

impl DecisionInputs<'_> {
    /// When the latest daemon connected of a host that may serve; `None` if none is connected.
    pub(super) fn attends_since(&self, server: &str) -> Option<Instant> {
        (self.life_signs)(&ParticipantId::Server(server.to_owned()), server).attends_since
    }
}

/// What is known of a member and of its host's daemons.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LifeSigns {
    /// When the latest daemon of the host connected; `None` if none is connected.
    pub(crate) attends_since: Option<Instant>,
    /// When the host's switch last heard its probes.
    pub(crate) last_probe: Option<Instant>,
    /// When the host's daemon was last heard.
    pub(crate) last_word: Option<Instant>,
    /// When the host's daemon last said that the member is at work.
    pub(crate) last_report: Option<Instant>,
}

impl LifeSigns {
    /// Whether a member is at work, though its own connection to the controller broke at `gone`: either its daemon is
    /// connected and says so, or the daemon has lost its connection, too, and its switch hears its probes. What
    /// arrives from a daemon after its connection broke may have been sent before.
    pub(super) fn lives_unheard(&self, gone: Instant, now: Instant) -> bool {
        let is_heard = |told: Instant| told > gone && now < told + WORD_PATIENCE;
        let has_controller = self.attends_since.is_some() && self.last_word.is_some_and(is_heard);
        let is_later = |since: Instant| since > gone + PROBE_LAG;
        match has_controller {
            true => self.last_report.is_some_and(|told| is_later(told) && is_heard(told)),
            false => self.last_probe.is_some_and(|probed| is_later(probed) && now < probed + PROBE_PATIENCE),
        }
    }
}
