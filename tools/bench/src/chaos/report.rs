//! The results of a chaos run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::foreign::ForeignStatistics;
use super::targets::DisturbanceKind;
use tributary_cli::output;

/// The JSON report. Times are in seconds.
#[derive(Debug, Default, Serialize)]
pub(super) struct ChaosReport {
    pub(super) topology: String,
    /// The kind of switch in the lab.
    pub(super) switch: String,
    pub(super) seed: u64,
    /// Duration of the run, including making and removing the lab.
    pub(super) seconds: f64,
    /// Sums that were checked, counted once for each member that received them.
    pub(super) checked: u64,
    #[serde(flatten)]
    pub(super) all: Statistics,
    /// Ordinary datagrams between the hosts; `None` if there were none.
    pub(super) foreign: Option<ForeignStatistics>,
    /// Times between consecutive sums while no target is hit.
    pub(super) calm_s: Spread,
    pub(super) by_kind: BTreeMap<DisturbanceKind, Statistics>,
}

/// The effects of disturbances.
#[derive(Debug, Default, Serialize)]
pub(super) struct Statistics {
    /// The number of disturbances.
    pub(super) kills: u64,
    /// Number of sums that were wrong, or that differed between members.
    pub(super) wrong: u64,
    pub(super) lost_jobs: u64,
    /// Members that made no progress for too long.
    pub(super) stuck: u64,
    /// Pauses of members that were not hit, in seconds.
    pub(super) pauses_s: Spread,
    /// The pauses during which the controller may have been down.
    pub(super) unattended_s: Spread,
    /// The time from the repair until members that were hit were back in the job.
    pub(super) back_s: Spread,
}

/// Durations, which are shown as their median, 99th percentile and maximum.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(into = "SpreadSummary")]
pub(super) struct Spread(Vec<f64>);

/// The figures of a spread; `None` if it has no durations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct SpreadSummary {
    median: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
}

impl Spread {
    pub(super) fn add(&mut self, duration: Duration) {
        self.0.push(duration.as_secs_f64());
    }

    /// Returns the quantile for `part`, from 0 to 1; `None` if the list of durations is empty.
    fn quantile(&self, part: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = (sorted.len() as f64 * part).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

impl From<Spread> for SpreadSummary {
    fn from(spread: Spread) -> Self {
        let [median, p99, max] = [0.5, 0.99, 1.0].map(|part| spread.quantile(part));
        Self { median, p99, max }
    }
}

impl ChaosReport {
    /// Changes the overall statistics, and the statistics of `kinds`.
    pub(super) fn count(&mut self, kinds: &[DisturbanceKind], change: impl Fn(&mut Statistics)) {
        change(&mut self.all);
        kinds.iter().for_each(|kind| change(self.by_kind.entry(*kind).or_default()));
    }

    /// Describes the failures; returns `None` if there are none.
    pub(super) fn failure(&self) -> Option<String> {
        let Statistics { wrong, lost_jobs, stuck, .. } = self.all;
        let foreign = self.foreign.unwrap_or_default();
        let of_job = (wrong > 0 || lost_jobs > 0 || stuck > 0).then(|| {
            format!("{wrong} sums were wrong, {lost_jobs} jobs were lost, {stuck} members were stuck")
        });
        let of_others = (foreign.damaged > 0 || foreign.stuck > 0).then(|| {
            format!(
                "{} foreign datagrams were damaged, and {} times no datagram arrived in time",
                foreign.damaged, foreign.stuck
            )
        });
        let all: Vec<_> = [of_job, of_others].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Formats the report for people.
    pub(super) fn text(&self) -> String {
        let header = ["target", "times", "wrong", "lost jobs", "stuck", "pause: median", "99 %", "longest"];
        let others = ["unattended", "back: median", "longest"];
        let mut table = output::number_table(&[&header[..], &others[..]].concat());
        let statistics = self.by_kind.iter().map(|(kind, statistics)| (kind.to_string(), statistics));
        for (name, statistics) in statistics.chain([("all".to_owned(), &self.all)]) {
            let counts = [statistics.kills, statistics.wrong, statistics.lost_jobs, statistics.stuck]
                .map(|count| count.to_string());
            let pauses = SpreadSummary::from(statistics.pauses_s.clone());
            let back = SpreadSummary::from(statistics.back_s.clone());
            let unattended = SpreadSummary::from(statistics.unattended_s.clone()).max;
            let times =
                [pauses.median, pauses.p99, pauses.max, unattended, back.median, back.max].map(seconds);
            table.add_row(std::iter::once(name).chain(counts).chain(times));
        }
        let calm = SpreadSummary::from(self.calm_s.clone());
        let foreign = self.foreign.map_or_else(String::new, |foreign| {
            let ForeignStatistics { sent, received, damaged, .. } = foreign;
            format!("\nforeign datagrams: {sent} sent, {received} received, {damaged} of them damaged")
        });
        format!(
            "{table}\n\
             {} sums checked in {:.0} s on {} ({}), seed {}; {} (median) from one sum to the next without a \
             disturbance\n\
             pause: the longest time between two sums of a member that was not hit; unattended: the longest pause \
             while\n\
             the controller was down, too; back: from the repair to the first sum of a member that was hit{foreign}",
            self.checked,
            self.seconds,
            self.topology,
            self.switch,
            self.seed,
            seconds(calm.median),
        )
    }
}

fn seconds(time: Option<f64>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| format!("{time:.3} s"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spread(millis: impl IntoIterator<Item = u64>) -> Spread {
        let mut spread = Spread::default();
        millis.into_iter().for_each(|millis| spread.add(Duration::from_millis(millis)));
        spread
    }

    #[test]
    fn a_spread_is_its_median_its_99th_percentile_and_its_maximum() {
        let json = |spread: Spread| serde_json::to_value(spread).unwrap();
        assert_eq!(json(spread([])), json!({ "median": null, "p99": null, "max": null }));
        assert_eq!(json(spread([7])), json!({ "median": 0.007, "p99": 0.007, "max": 0.007 }));
        assert_eq!(json(spread((1..=200).rev())), json!({ "median": 0.1, "p99": 0.198, "max": 0.2 }));
    }

    #[test]
    fn a_report_has_the_keys_that_programs_ask_for() {
        let mut report = ChaosReport { topology: "t".into(), seed: 7, ..ChaosReport::default() };
        report.count(&[DisturbanceKind::Root, DisturbanceKind::Link], |statistics| {
            statistics.kills += 1;
            statistics.pauses_s.add(Duration::from_millis(500));
        });
        assert_eq!(report.failure(), None);
        report.count(&[], |statistics| statistics.stuck += 1);
        assert!(report.failure().unwrap().contains("1 members were stuck"));
        report.foreign = Some(ForeignStatistics { sent: 9, received: 8, damaged: 1, stuck: 0 });
        assert!(report.failure().unwrap().contains("stuck; 1 foreign datagrams"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["foreign"], json!({ "sent": 9, "received": 8, "damaged": 1, "stuck": 0 }));
        assert_eq!(
            (&json["kills"], &json["wrong"], &json["lost_jobs"], &json["stuck"]),
            (&json!(1), &json!(0), &json!(0), &json!(1))
        );
        assert_eq!(json["pauses_s"], json!({ "median": 0.5, "p99": 0.5, "max": 0.5 }));
        assert_eq!(json["by_kind"]["root"]["kills"], 1);
        assert_eq!(json["by_kind"]["link"]["pauses_s"]["max"], 0.5);
        let text = report.text();
        assert!(text.contains("root switch") && text.contains("0.500 s"), "{text}");
    }
}
