//! Inputs of a decision about a job, besides the job.

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

/// Interval at which the reconciler checks again whether a process waits for a result.
pub(super) const STALL_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which all members of a job may wait for a result before the job moves to new slots.
/// Results come many times a second, and lost frames are sent again.
pub(super) const STUCK_PATIENCE: Duration = Duration::from_secs(5);
/// A probe that arrives this long after a stream broke was sent after the break.
const PROBE_LAG: Duration = Duration::from_millis(50);
/// A daemon whose last probe is older than this is not alive any more.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// Inputs of a decision, besides the job.
pub(crate) struct DecisionInputs<'a> {
    pub(crate) topology: &'a Topology,
    /// The fabric that a new structure is built on.
    /// It includes the slots that the job could get in addition to its own. Silent parts count as dead.
    pub(crate) fabric: &'a FabricState,
    /// The same fabric, but silent parts count as alive: the present structure is judged by it while the
    /// job's slices get through.
    pub(crate) trusting_fabric: &'a FabricState,
    pub(crate) health: &'a Health,
    /// Returns the signs of life of a process of the job, and of its host's daemons.
    pub(crate) life_signs: &'a dyn Fn(&ParticipantId, &str) -> LifeSigns,
    /// Ranks that wait for a result and whose requests reach the job's server.
    pub(crate) asking: &'a BTreeSet<Rank>,
    /// Returns true if a host's daemon could serve.
    pub(crate) serving: &'a dyn Fn(&str) -> bool,
    /// The longest time that a process of the job has waited for a result; `None` if none has waited long.
    pub(crate) stalled: Option<Duration>,
    /// Time for which all processes of the job have waited for a result; `None` if
    /// at least one does not wait.
    pub(crate) stuck: Option<Duration>,
    /// The period in which the controller itself last stood still and received nothing.
    pub(crate) standstill: Option<Standstill>,
    pub(crate) now: Instant,
}

impl DecisionInputs<'_> {
    /// Returns when the latest daemon of a host that may serve connected; `None` if none is connected.
    pub(super) fn attends_since(&self, server: &str) -> Option<Instant> {
        (self.life_signs)(&ParticipantId::Server(server.to_owned()), server).attends_since
    }
}

/// Signs of life of a member and of its host's daemons.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LifeSigns {
    /// The time at which the latest daemon of the host connected; `None` if none is connected.
    pub(crate) attends_since: Option<Instant>,
    /// The time at which a neighbour of the host last received its probes.
    pub(crate) last_probe: Option<Instant>,
    /// The time at which the controller last received a report from the host's daemon.
    pub(crate) last_word: Option<Instant>,
    /// The time at which the host's daemon last reported that the member is at work.
    pub(crate) last_report: Option<Instant>,
}

impl LifeSigns {
    /// Returns true if a member is at work, though its own connection to the controller broke at `gone`.
    /// Either its daemon is connected and reports so, or the daemon has lost its connection, too, and its switch
    /// receives its probes. Data that arrives from a daemon after its connection broke may have been sent before.
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
