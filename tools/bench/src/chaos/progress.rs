//! Progress of a chaos run, on standard error.

use std::collections::BTreeMap;
use std::time::Duration;
use tributary_cli::output;

use indicatif::{ProgressBar, ProgressStyle};

use super::schedule::{Blow, Disturbance};

/// A progress bar if standard error is a terminal, and a line for each blow.
///
/// A blow is one disturbance, or two with overlapping outages.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// If true, only failures are shown.
    quiet: bool,
    /// The reason why each rank was last out of the job.
    reasons: BTreeMap<usize, String>,
}

impl Progress {
    pub(super) fn new(kills: usize, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(kills as u64) };
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len}  {msg}");
        // The template is a constant that parses. If it did not, the default style would be used.
        let bar = style.map_or(bar.clone(), |style| bar.with_style(style));
        Self { bar, quiet, reasons: BTreeMap::new() }
    }

    /// Shows that a step that takes time has begun.
    pub(super) fn message(&self, message: &'static str) {
        self.bar.set_message(message);
    }

    /// Shows that a target is hit.
    pub(super) fn hit(&self, disturbance: &Disturbance) {
        self.bar.set_message(words(disturbance));
        self.bar.inc(1);
    }

    /// Notes that a member is out of the job, and the reason.
    pub(super) fn out(&mut self, rank: usize, reason: &str) {
        self.reasons.insert(rank, reason.to_owned());
    }

    /// Shows the outcome of a blow.
    pub(super) fn done(
        &self,
        blow: &Blow,
        pause: Option<Duration>,
        back: Option<Duration>,
        lost: bool,
        stuck: &[usize],
    ) {
        let what: Vec<_> = blow.disturbances.iter().map(words).collect();
        let what = what.join(" and ");
        let time = |name: &str, time: Option<Duration>| {
            time.map(|time| format!("{name} {:.2} s", time.as_secs_f64()))
        };
        let times: Vec<_> = [time("pause", pause), time("back after", back)].into_iter().flatten().collect();
        if lost {
            self.failure(&format!("{what}: the job is lost{}", self.words_of_all()));
        } else if !stuck.is_empty() {
            self.failure(&format!("{what}: ranks {stuck:?} are stuck{}", self.words_of_all()));
        } else if !self.quiet {
            self.line(&format!("{what}: {}", times.join(", ")));
        }
    }

    /// Shows a failure.
    pub(super) fn failure(&self, what: &str) {
        self.line(&format!("FAILED: {what}"));
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, line: &str) {
        self.bar.suspend(|| output::complain(line));
    }

    fn words_of_all(&self) -> String {
        self.reasons.iter().map(|(rank, reason)| format!("\n  rank {rank} was out: {reason}")).collect()
    }
}

fn words(disturbance: &Disturbance) -> String {
    format!("{} for {:.2} s", disturbance.target, disturbance.outage.as_secs_f64())
}
