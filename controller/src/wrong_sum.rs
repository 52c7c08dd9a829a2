//! Finds the member whose contribution to an all-reduce differs when the sum is wrong.
//!
//! A member knows its own contribution, but not the contributions of the other members. Each member with a wrong sum
//! reports its contribution here. All members receive the result of the comparison, so that each process can name the
//! rank that differs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tributary_api::v1;
use tributary_wire::{Rank, Seq};

use crate::events::plain;
use crate::jobs::JobKey;

/// Time after the first report in which the other members must report.
/// All members get the same wrong sum, within a few round trips.
const PATIENCE: Duration = Duration::from_secs(1);
/// The maximum number of different contributions that are named, and of ranks that are named for each.
const NAMED: usize = 8;
/// The maximum number of characters that are stored of a tensor's name.
const NAME_LENGTH: usize = 200;

/// A member's report of an all-reduce whose sum is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongSumReport {
    /// The first slice of the all-reduce.
    operation: Seq,
    given: Given,
    /// The symptom of the wrong sum.
    seen: String,
}

/// A member's contribution.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Given {
    tensor: String,
    elements: u64,
    element_type: String,
}

impl WrongSumReport {
    pub(crate) fn new(given: v1::GivenOperation, seen: String) -> Self {
        let v1::GivenOperation { first_seq, tensor, elements, element_type } = given;
        let tensor = tensor.chars().take(NAME_LENGTH).collect();
        let given = Given { tensor, elements, element_type: plain(&element_type) };
        Self { operation: Seq(first_seq), given, seen }
    }
}

impl std::fmt::Display for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tensor, elements, element_type } = self;
        write!(f, "{tensor:?} with {elements} elements of {element_type}")
    }
}

/// A worker of a job.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) host: String,
    /// The ranks of the host's training processes.
    pub(crate) ranks: Range<u32>,
}

/// The diagnoses in progress, by job.
#[derive(Debug, Default)]
pub(crate) struct Diagnoses(Mutex<BTreeMap<JobKey, Diagnosis>>);

#[derive(Debug)]
struct Diagnosis {
    comparison: Comparison,
    /// Notified when all members have reported.
    complete: Arc<Notify>,
    verdict: watch::Sender<Option<String>>,
}

impl Diagnoses {
    /// Adds a member's report. Returns true for the first report of a job, and the channel for the verdict.
    pub(crate) fn note(
        &self,
        job: JobKey,
        members: BTreeMap<Rank, Worker>,
        rank: Rank,
        report: WrongSumReport,
    ) -> (bool, watch::Receiver<Option<String>>) {
        let mut diagnoses = self.0.lock();
        let is_first = !diagnoses.contains_key(&job);
        let diagnosis = diagnoses.entry(job).or_insert_with(|| Diagnosis {
            comparison: Comparison { members, reports: BTreeMap::new() },
            complete: Arc::default(),
            verdict: watch::Sender::new(None),
        });
        diagnosis.comparison.note(rank, report);
        if diagnosis.comparison.is_complete() {
            diagnosis.complete.notify_one();
        }
        (is_first, diagnosis.verdict.subscribe())
    }

    /// Waits until all members have reported or [`PATIENCE`] has passed, and returns the verdict.
    pub(crate) async fn verdict(&self, job: JobKey) -> String {
        let complete = self.0.lock().get(&job).map(|diagnosis| Arc::clone(&diagnosis.complete));
        if let Some(complete) = complete {
            // After a timeout, the verdict names the members that have not reported.
            let _ = timeout(PATIENCE, complete.notified()).await;
        }
        self.0.lock().get(&job).map(|diagnosis| diagnosis.comparison.to_string()).unwrap_or_default()
    }

    /// Sends the verdict to all members that have reported, and ends the diagnosis.
    pub(crate) fn close(&self, job: JobKey, verdict: String) {
        if let Some(diagnosis) = self.0.lock().remove(&job) {
            diagnosis.verdict.send_replace(Some(verdict));
        }
    }
}

/// Waits for the verdict. The text is empty if the controller stops first.
pub(crate) async fn await_verdict(mut verdict: watch::Receiver<Option<String>>) -> String {
    let found = verdict.wait_for(Option::is_some).await;
    found.ok().and_then(|verdict| verdict.clone()).unwrap_or_default()
}

/// The reports of a job's members on the job's first all-reduce with a wrong sum.
#[derive(Debug)]
struct Comparison {
    /// All workers, by rank.
    members: BTreeMap<Rank, Worker>,
    reports: BTreeMap<Rank, WrongSumReport>,
}

impl Comparison {
    /// Adds a report. Of several reports of a member, the report on the earliest all-reduce is kept.
    /// Later reports add no information, because a difference in one all-reduce makes all later ones differ, too.
    fn note(&mut self, rank: Rank, report: WrongSumReport) {
        match self.reports.get(&rank) {
            Some(known) if !known.operation.is_newer_than(report.operation) => {}
            _ => drop(self.reports.insert(rank, report)),
        }
    }

    fn first(&self) -> Option<Seq> {
        let operations = self.reports.values().map(|report| report.operation);
        operations.reduce(|first, one| if first.is_newer_than(one) { one } else { first })
    }

    /// Returns true if all members have reported on the first all-reduce with a wrong sum.
    fn is_complete(&self) -> bool {
        let first = self.first();
        let has_told = |rank| self.reports.get(rank).map(|report| report.operation) == first;
        self.members.keys().all(has_told)
    }

    /// Groups the ranks by their contributions, the smallest group first.
    fn groups(&self) -> Vec<(&Given, Vec<Rank>)> {
        let first = self.first();
        let mut groups: BTreeMap<&Given, Vec<Rank>> = BTreeMap::new();
        for (rank, report) in self.reports.iter().filter(|(_, report)| Some(report.operation) == first) {
            groups.entry(&report.given).or_default().push(*rank);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, ranks)| (ranks.len(), ranks.first().copied()));
        groups
    }

    /// Lists the ranks of workers' processes as text for users, such as `rank 1 (w1)`, `ranks 4–7 (w1)` or
    /// `ranks 0 (w0), 2 (w2) and 5 others`.
    fn names(&self, workers: &[Rank]) -> String {
        let members: Vec<_> = workers.iter().filter_map(|worker| self.members.get(worker)).collect();
        let name = |Worker { host, ranks }: &&Worker| match ranks.len() {
            1 => format!("{} ({host})", ranks.start),
            _ => format!("{}–{} ({host})", ranks.start, ranks.end.saturating_sub(1)),
        };
        let named: Vec<_> = members.iter().take(NAMED).map(name).collect();
        let of = |members: &[&Worker]| members.iter().map(|member| member.ranks.len()).sum::<usize>();
        let others = match of(members.get(NAMED..).unwrap_or_default()) {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        format!("rank{} {}{others}", if of(&members) == 1 { "" } else { "s" }, named.join(", "))
    }

    /// Returns the ranks that have not reported on this all-reduce.
    fn silent(&self, groups: &[(&Given, Vec<Rank>)]) -> Vec<Rank> {
        let has_told = |rank: &Rank| groups.iter().any(|(_, ranks)| ranks.contains(rank));
        self.members.keys().copied().filter(|rank| !has_told(rank)).collect()
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let groups = self.groups();
        let gave = |(given, ranks): &(&Given, Vec<Rank>)| format!("{} gave {given}", self.names(ranks));
        let mut given: Vec<_> = groups.iter().take(NAMED).map(gave).collect();
        let silent = self.silent(&groups);
        if !silent.is_empty() {
            given.push(format!("{} did not tell what they gave", self.names(&silent)));
        }
        let given = given.join("; ");
        if groups.len() > 1 {
            return write!(
                f,
                "the ranks gave different things to the same all-reduce: {given}. All of them have to start the same \
                 all-reduces in the same order, with the same names, sizes, types and precisions: correct that in the \
                 program, and start all ranks again"
            );
        }
        let seen = self.reports.values().next().map_or("", |report| report.seen.as_str());
        if !silent.is_empty() {
            return write!(
                f,
                "its sum is wrong: {given}. Those may be at another all-reduce, after one that has ended, failed or \
                 was given up there. Start all ranks again. What was seen: {seen}"
            );
        }
        write!(
            f,
            "its sum is wrong, and not because they differ: {given}. A switch adds up wrongly, or somebody changes \
             packets on their way: look for it with `tributary doctor`, and start all ranks again. What was seen: {seen}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(rank: u16) -> (Rank, Worker) {
        let ranks = u32::from(rank)..u32::from(rank) + 1;
        (Rank::new(rank), Worker { host: format!("w{rank}"), ranks })
    }

    fn report(operation: u32, tensor: &str, elements: u64, element_type: &str) -> WrongSumReport {
        let (tensor, element_type) = (tensor.to_owned(), element_type.to_owned());
        let given = v1::GivenOperation { first_seq: operation, tensor, elements, element_type };
        WrongSumReport::new(given, "the check does not fit".to_owned())
    }

    fn comparison(all: impl IntoIterator<Item = (u16, WrongSumReport)>) -> Comparison {
        let members = (0..3).map(worker).collect();
        let mut comparison = Comparison { members, reports: BTreeMap::new() };
        all.into_iter().for_each(|(rank, report)| comparison.note(Rank::new(rank), report));
        comparison
    }

    #[test]
    fn the_rank_that_differs_is_named_first() {
        let of_each =
            [(0, report(1, "a", 10, "f32")), (1, report(1, "a", 9, "f32")), (2, report(1, "a", 10, "f32"))];
        let comparison = comparison(of_each);
        assert!(comparison.is_complete());
        let verdict = comparison.to_string();
        let who = "rank 1 (w1) gave \"a\" with 9 elements of f32; \
                   ranks 0 (w0), 2 (w2) gave \"a\" with 10 elements of f32. ";
        assert!(verdict.contains(who), "{verdict}");
    }

    #[test]
    fn the_first_all_reduce_that_differs_counts_whatever_is_told_first() {
        let last = u32::MAX;
        let of_each = [
            (0, report(2, "later", 1, "f32")),
            (0, report(last, "a", 1, "f32")),
            (1, report(last, "b", 1, "f32")),
            (1, report(7, "later", 1, "f32")),
        ];
        let mut comparison = comparison(of_each);
        assert!(!comparison.is_complete());
        let verdict = comparison.to_string();
        assert!(verdict.contains("rank 0 (w0) gave \"a\"") && !verdict.contains("later"), "{verdict}");
        assert!(verdict.contains("rank 2 (w2) did not tell"), "{verdict}");
        comparison.note(Rank::new(2), report(3, "later", 1, "f32"));
        assert!(!comparison.is_complete(), "it has told of another one");
        comparison.note(Rank::new(2), report(last, "a", 1, "bf16"));
        assert!(comparison.is_complete());
    }

    #[test]
    fn the_ranks_of_a_host_with_several_processes_are_named() {
        let mut comparison = comparison([(0, report(2, "a", 10, "f32")), (1, report(2, "b", 10, "f32"))]);
        for (rank, ranks) in [(0, 0..4), (1, 4..6), (2, 6..7)] {
            comparison.members.get_mut(&Rank::new(rank)).unwrap().ranks = ranks;
        }
        let verdict = comparison.to_string();
        for named in ["ranks 0–3 (w0) gave \"a\"", "ranks 4–5 (w1) gave \"b\"", "rank 6 (w2) did not tell"]
        {
            assert!(verdict.contains(named), "{verdict}");
        }
    }

    #[test]
    fn whoever_says_nothing_may_be_elsewhere() {
        let verdict = comparison([(0, report(2, "a", 10, "f32"))]).to_string();
        assert!(
            verdict.contains("ranks 1 (w1), 2 (w2) did not tell what they gave. Those may be"),
            "{verdict}"
        );
        assert!(!verdict.contains("switch"), "{verdict}");
    }

    #[test]
    fn members_that_gave_the_same_are_not_to_blame() {
        let verdict = comparison([0, 1, 2].map(|rank| (rank, report(1, "a", 10, "i32")))).to_string();
        for words in
            ["ranks 0 (w0), 1 (w1), 2 (w2) gave \"a\"", "A switch adds up wrongly", "the check does not fit"]
        {
            assert!(verdict.contains(words), "{verdict}");
        }
    }
}
