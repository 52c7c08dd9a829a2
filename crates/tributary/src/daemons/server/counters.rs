//! The aggregation servers' counters, for Prometheus.

use tributary_host_agent::AgentStats;
use tributary_protocol::ServerStats;

use crate::daemons::metrics::{MetricsPage, labels};

type Stats = AgentStats<ServerStats>;

/// Adds the counters of the jobs' servers to a page.
pub(crate) fn tell(page: &mut MetricsPage, all: &[(String, Stats)]) {
    let mut counter = |name, help, count: fn(&Stats) -> u64| {
        page.counter(name, help, all.iter().map(|(job, stats)| (labels([("job", job)]), count(stats))));
    };
    counter("tributary_server_packets_received", "GRADIENT packets", |stats| stats.protocol.received);
    counter("tributary_server_contributions", "Contributions aggregated", |stats| {
        stats.protocol.contributions
    });
    counter("tributary_server_slices_completed", "Slices complete", |stats| stats.protocol.completed);
    counter("tributary_server_duplicates", "Packets of a child that had arrived before", |stats| {
        stats.protocol.duplicates
    });
    counter("tributary_server_rejected", "Invalid packets", |stats| stats.protocol.rejected);
    counter("tributary_server_results_sent_again", "Results sent again", |stats| {
        stats.protocol.answers + stats.protocol.answers_to_all
    });
    counter("tributary_server_frames_sent", "Frames sent", |stats| stats.traffic.sent);
    counter("tributary_server_frames_malformed", "Damaged frames", |stats| stats.traffic.malformed);
}
