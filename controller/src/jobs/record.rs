//! The part of a job that the journal stores.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use tributary_api::ProcessCounts;
use tributary_planner::JobRequest;
use tributary_wire::{JobSecret, Rank};

use super::detachment::OnDegraded;
use super::generation::{Generation, JobKey, Stage};
use crate::fallback;
use crate::token::Token;

/// All data of a job except its present connections.
#[derive(Debug, Clone)]
pub(crate) struct JobRecord {
    pub(crate) name: String,
    /// The name in the certificate of the job's creator.
    pub(crate) creator: String,
    /// The group whose job this is; `None` if the job is not that of a group.
    pub(crate) group: Option<GroupId>,
    pub(crate) token: Token,
    /// The secret from which the members derive their tags.
    pub(crate) secret: JobSecret,
    /// The request that created the job, with all workers that the job may ever have.
    pub(crate) request: JobRequest,
    pub(crate) terms: Terms,
    /// The number of training processes with which each worker has joined this run.
    pub(crate) processes: BTreeMap<Rank, NonZeroU16>,
    /// The index of the job's counters in every switch.
    /// The counters stay valid after the job has returned the index, until another job gets the index.
    pub(crate) job_index: u16,
    /// True if the job has not yet returned the index.
    pub(crate) holds_index: bool,
    /// The job's generations, which always include the present one.
    /// Generations whose tables are being withdrawn come before the present one. A generation that is being prepared
    /// comes after it.
    pub(crate) generations: Vec<Generation>,
    /// The number of the present generation.
    pub(crate) current: u32,
    /// The highest generation number that was issued.
    /// No number is issued twice. An answer to a cancelled change can therefore not be mistaken for an answer to the
    /// next change.
    pub(crate) issued: u32,
    /// The reason for the last change of generation.
    pub(crate) last_change: String,
}

/// Identifies a group of a job's processes that has a job of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupId {
    /// The job with the group's processes.
    pub(crate) parent: JobKey,
    /// The id that the processes have chosen. No other group of the parent has it.
    pub(crate) id: String,
}

/// Terms that the creator of a job sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms {
    /// True if the job fails when it loses a member.
    pub(crate) rigid: bool,
    /// Time for which the job may wait for its members to join.
    pub(crate) join_deadline: Duration,
    /// The policy for degraded processes.
    pub(crate) on_degraded: OnDegraded,
    /// True if the server decodes the sums. It then gets the secret.
    pub(crate) server_reads: bool,
    /// True if the workers mask their values.
    pub(crate) confidential: bool,
    /// The number of training processes that each worker must have; `None` if the workers decide.
    pub(crate) processes_per_host: Option<NonZeroU16>,
    /// The number of threads with which each agent and the server process the job's slices: the number of
    /// stripes.
    pub(crate) threads: u32,
}

impl JobRecord {
    /// Returns the present generation.
    pub(crate) fn generation(&self) -> &Generation {
        let current = self.generations.iter().find(|generation| generation.number == self.current);
        // The fallback is never used, because the constructor adds a generation and the present one is never removed.
        current.unwrap_or(&self.generations[0])
    }

    /// Returns the number of training processes of a worker.
    ///
    /// A worker that has not joined has the number that the creator set. Without one, it has the number of the lowest
    /// rank in the job. A job starts when all workers have joined, so that the numbers do not change after the start.
    pub(crate) fn processes_of(&self, worker: Rank) -> NonZeroU16 {
        let own = self.processes.get(&worker).copied();
        let lowest = || self.processes.first_key_value().map(|(_, processes)| *processes);
        own.or(self.terms.processes_per_host).or_else(lowest).unwrap_or(NonZeroU16::MIN)
    }

    /// Returns true if at least one worker has more than one training process.
    pub(crate) fn has_several_processes(&self) -> bool {
        self.processes.values().chain(&self.terms.processes_per_host).any(|processes| processes.get() > 1)
    }

    /// Returns the number of training processes of each worker that the job may ever have.
    ///
    /// The numbers of workers that are not members count, too, so that the ranks of processes never change.
    pub(crate) fn process_counts(&self) -> ProcessCounts {
        let workers = self.request.workers.iter();
        workers.map(|member| self.processes_of(Rank::new(member.rank))).collect()
    }

    /// Logs the fallbacks of the present generation, if there are any.
    pub(crate) fn warn_of_fallbacks(&self) {
        let Generation { number, plan, fallbacks, .. } = self.generation();
        fallback::warn(&self.name, *number, plan, fallbacks);
    }

    /// Makes generation `number` the present one.
    pub(crate) fn advance(&mut self, number: u32, reason: &str) {
        self.current = number;
        if number > 1 {
            reason.clone_into(&mut self.last_change);
        }
    }

    /// Returns the generation with that number; `None` if there is none, for example after it was
    /// withdrawn.
    pub(crate) fn numbered(&mut self, number: u32) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    /// Returns the generations whose tables belong in the switches.
    pub(crate) fn installed(&self) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(|generation| generation.stage == Stage::Installed)
    }

    /// Returns true if the job has returned its index and no switch can have tables of it.
    pub(crate) fn holds_nothing(&self) -> bool {
        !self.holds_index && self.generations.iter().all(|generation| generation.switches.is_empty())
    }

    /// Returns the hosts of the job's members: workers by rank, then the server.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let plan = &self.generation().plan;
        let workers = plan.workers.iter().map(|worker| worker.name.as_str());
        workers.chain([plan.server.name.as_str()])
    }
}
