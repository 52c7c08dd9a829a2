//! The agents of the jobs that are served.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tributary_host_agent::{AgentStats, ServerAgent};
use tributary_protocol::ServerStats;

use crate::metrics::{Page, labels};

/// Those that have started, by their job's name, as long as they are at work.
#[derive(Clone, Default)]
pub(crate) struct Agents(Arc<Mutex<Vec<Named>>>);

type Named = (String, Weak<ServerAgent>);

type Stats = AgentStats<ServerStats>;

impl Agents {
    pub(crate) fn add(&self, job: &str, agent: &Arc<ServerAgent>) {
        self.lock().push((job.to_owned(), Arc::downgrade(agent)));
    }

    /// What they have counted. Waits for the agents' threads.
    pub(super) fn stats(&self) -> Vec<(String, Stats)> {
        let mut agents = self.lock();
        agents.retain(|(_, agent)| agent.strong_count() > 0);
        let all: Vec<_> = agents.clone();
        drop(agents);
        let stats = |(job, agent): Named| Some((job, agent.upgrade()?.stats().ok()?));
        all.into_iter().filter_map(stats).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Named>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds what the agents have counted.
pub(super) fn tell(page: &mut Page, all: &[(String, Stats)]) {
    let mut counter = |name, help, count: fn(&Stats) -> u64| {
        page.counter(name, help, all.iter().map(|(job, stats)| (labels([("job", job)]), count(stats))));
    };
    counter("tributary_server_packets_received", "GRADIENT packets", |stats| stats.protocol.received);
    counter("tributary_server_contributions", "Contributions added up", |stats| stats.protocol.contributions);
    counter("tributary_server_slices_completed", "Slices complete", |stats| stats.protocol.completed);
    counter("tributary_server_duplicates", "Packets of a child that were there", |stats| {
        stats.protocol.duplicates
    });
    counter("tributary_server_rejected", "Packets that cannot be right", |stats| stats.protocol.rejected);
    counter("tributary_server_results_sent_again", "Results sent again", |stats| {
        stats.protocol.answers + stats.protocol.answers_to_all
    });
    counter("tributary_server_frames_sent", "Frames sent", |stats| stats.traffic.sent);
    counter("tributary_server_frames_malformed", "Damaged frames", |stats| stats.traffic.malformed);
}
