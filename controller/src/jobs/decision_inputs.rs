//! Inputs of a decision about a job, in addition to the job itself.

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

/// Interval at which the reconciler checks again if a process waits for a result.
pub(super) const STALL_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which all members of a job wait for a result before the job moves to new slots.
/// In normal operation, results arrive many times a second, and lost frames are retransmitted much sooner.
pub(super) const STUCK_PATIENCE: Duration = Duration::from_secs(5);
/// A probe that arrives at least this long after a stream broke was sent after the break.
const PROBE_LAG: Duration = Duration::from_millis(50);
/// Age of the last probe beyond which a daemon does not count as alive.
const PROBE_PATIENCE: Duration = Duration::from_millis(300);

/// Inputs of a decision about a job, in addition to the job itself.
pub(crate) struct DecisionInputs<'a> {
    pub(crate) topology: &'a Topology,
    /// The fabric for which a new structure is planned.
    /// It includes the slots that the job could get in addition to its own. Silent parts count as dead.
    pub(crate) fabric: &'a FabricState,
    /// The fabric by which the present structure is judged while the job's slices still arrive.
    /// It differs from `fabric` in that silent parts count as alive.
    pub(crate) trusting_fabric: &'a FabricState,
    pub(crate) health: &'a Health,
    /// Returns the signs of life of a participant of the job, and of the daemons on its host.
    pub(crate) life_signs: &'a dyn Fn(&ParticipantId, &str) -> LifeSigns,
    /// Ranks that wait for a result and whose requests reach the job's server.
    pub(crate) asking: &'a BTreeSet<Rank>,
    /// Returns true if a daemon of the host could act as a server.
    pub(crate) serving: &'a dyn Fn(&str) -> bool,
    /// The longest time that a process of the job has waited for a result; `None` if no process is stalled.
    pub(crate) stalled: Option<Duration>,
    /// The time for which all processes of the job have waited for a result; `None` if at least one is not
    /// stalled.
    pub(crate) stuck: Option<Duration>,
    /// The last period in which the controller itself stood still and received nothing.
    pub(crate) standstill: Option<Standstill>,
    pub(crate) now: Instant,
}

impl DecisionInputs<'_> {
    /// Returns the time at which the latest daemon of the host `server` connected; `None` if none is
    /// connected.
    pub(super) fn connected_since(&self, server: &str) -> Option<Instant> {
        (self.life_signs)(&ParticipantId::Server(server.to_owned()), server).connected_since
    }
}

/// Signs of life of a participant and of the daemons on its host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LifeSigns {
    /// The time at which the latest daemon of the host connected; `None` if none is connected.
    pub(crate) connected_since: Option<Instant>,
    /// The time at which a neighbour of the host last received a probe of the host.
    pub(crate) last_probe: Option<Instant>,
    /// The time at which the controller last received a message from a daemon of the host.
    pub(crate) last_word: Option<Instant>,
    /// The time at which a daemon of the host last reported on the participant's work.
    pub(crate) last_report: Option<Instant>,
}

impl LifeSigns {
    /// Returns true if a member is still at work although its stream to the controller broke at `gone`.
    /// If the host's daemon is connected, the daemon must have reported on the member recently. If not, a neighbour of
    /// the host must have received the host's probes recently. Signs of life count only from [`PROBE_LAG`] after
    /// `gone`, because earlier ones may have been sent before the break.
    pub(super) fn lives_unheard(&self, gone: Instant, now: Instant) -> bool {
        let is_heard = |told: Instant| told > gone && now < told + WORD_PATIENCE;
        let has_controller = self.connected_since.is_some() && self.last_word.is_some_and(is_heard);
        let is_later = |since: Instant| since > gone + PROBE_LAG;
        match has_controller {
            true => self.last_report.is_some_and(|told| is_later(told) && is_heard(told)),
            false => self.last_probe.is_some_and(|probed| is_later(probed) && now < probed + PROBE_PATIENCE),
        }
    }
}
