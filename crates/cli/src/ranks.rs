//! The ranks of a job's training processes, as text for users.

use std::collections::BTreeMap;
use std::ops::Range;

use tributary_api::v1;

/// The ranks of the training processes on each host of a job. Ranks count the processes of all hosts.
#[derive(Debug)]
pub struct Ranks<'a>(BTreeMap<&'a str, Range<u32>>);

impl<'a> Ranks<'a> {
    /// Returns the ranks of a job's workers; no ranks if the job is over.
    pub fn of(job: &'a v1::Job) -> Self {
        let workers = job.members.iter().filter(|member| member.role() == v1::MemberRole::Worker);
        Self::count(workers.map(|member| (member.host.as_str(), member.processes.max(1))))
    }

    /// Returns the ranks on hosts with the given numbers of processes, by the rank of the worker.
    pub fn count(workers: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let mut next = 0_u32;
        let place = |(host, processes)| {
            let first = next;
            next = first.saturating_add(processes);
            (host, first..next)
        };
        Self(workers.into_iter().map(place).collect())
    }

    /// Returns the ranks of a host's processes; `None` if the host has no worker of the job.
    pub fn on(&self, host: &str) -> Option<Range<u32>> {
        self.0.get(host).cloned()
    }

    /// Returns the name of a host, with its ranks if the job has hosts with several processes.
    pub fn label(&self, host: &str) -> String {
        match self.on(host).filter(|_| self.0.values().any(|ranks| ranks.len() > 1)) {
            Some(ranks) => format!("{host} ({})", text(&ranks)),
            None => host.to_owned(),
        }
    }
}

/// Returns text such as `rank 2` or `ranks 4–7`.
pub fn text(ranks: &Range<u32>) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, numbers(ranks))
}

/// Returns text such as `2` or `4–7`.
pub fn numbers(ranks: &Range<u32>) -> String {
    match ranks.len() {
        1 => ranks.start.to_string(),
        _ => format!("{}–{}", ranks.start, ranks.end.saturating_sub(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(host: &str, role: v1::MemberRole, processes: u32) -> v1::JobMember {
        v1::JobMember { host: host.into(), role: role.into(), processes, ..v1::JobMember::default() }
    }

    fn labels(processes: [u32; 3]) -> [String; 4] {
        let workers = ["w0", "w1", "ps"].into_iter().zip(processes);
        let mut members: Vec<_> =
            workers.map(|(host, processes)| member(host, v1::MemberRole::Worker, processes)).collect();
        members.push(member("ps", v1::MemberRole::Server, 0));
        let job = v1::Job { members, ..v1::Job::default() };
        let ranks = Ranks::of(&job);
        ["w0", "w1", "ps", "w9"].map(|host| ranks.label(host))
    }

    #[test]
    fn ranks_are_shown_only_where_hosts_have_several_processes() {
        assert_eq!(labels([4, 1, 2]), ["w0 (ranks 0–3)", "w1 (rank 4)", "ps (ranks 5–6)", "w9"]);
        assert_eq!(labels([1, 1, 1]), ["w0", "w1", "ps", "w9"]);
    }
}
