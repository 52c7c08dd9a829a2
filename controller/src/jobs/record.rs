//! What is worth keeping of a job.

use std::time::Duration;

use tributary_planner::JobRequest;
use tributary_wire::JobSecret;

use super::detachment::OnDegraded;
use super::generation::{Generation, Stage};
use crate::token::Token;

/// All of a job but who is connected right now.
#[derive(Debug, Clone)]
pub(crate) struct JobRecord {
    pub(crate) name: String,
    /// Who has created it: the name in its certificate.
    pub(crate) creator: String,
    pub(crate) token: Token,
    /// What its members' tags are made from.
    pub(crate) secret: JobSecret,
    /// As its creator asked for it: all the workers that it may ever have.
    pub(crate) request: JobRequest,
    pub(crate) terms: Terms,
    /// Where its counters are in every switch. Still true when the index is no longer its own to hold: its
    /// counters stay until another job gets the index.
    pub(crate) job_index: u16,
    /// Whether the index is its own.
    pub(crate) holds_index: bool,
    /// The present generation, which is always there; before it those that are being withdrawn, behind it one that is
    /// being prepared.
    pub(crate) generations: Vec<Generation>,
    /// The number of the present one.
    pub(crate) current: u32,
    /// The highest number that was ever given: none is given twice, so that an answer to a change that was called off
    /// is none to the next.
    pub(crate) issued: u32,
    /// Why the last change of generation was made.
    pub(crate) last_change: String,
}

/// What a job's creator wants of its life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Terms {
    /// It fails when it loses a member.
    pub(crate) rigid: bool,
    /// How long it may wait for its members to join.
    pub(crate) join_deadline: Duration,
    /// What is done about processes that become much slower than the others.
    pub(crate) on_degraded: OnDegraded,
    /// Its server reads the sums, and is told the secret.
    pub(crate) server_reads: bool,
    /// Its workers hide their values.
    pub(crate) confidential: bool,
}

impl JobRecord {
    /// The present generation.
    pub(crate) fn generation(&self) -> &Generation {
        let current = self.generations.iter().find(|generation| generation.number == self.current);
        // The first one in the worst case: the constructor puts one in, and the present one is never removed.
        current.unwrap_or(&self.generations[0])
    }

    /// The generation with that number is the present one.
    pub(crate) fn advance(&mut self, number: u32, reason: &str) {
        self.current = number;
        if number > 1 {
            reason.clone_into(&mut self.last_change);
        }
    }

    /// A generation that has not been withdrawn.
    pub(crate) fn numbered(&mut self, number: u32) -> Option<&mut Generation> {
        self.generations.iter_mut().find(|generation| generation.number == number)
    }

    /// Those whose tables belong in the switches.
    pub(crate) fn installed(&self) -> impl Iterator<Item = &Generation> {
        self.generations.iter().filter(|generation| generation.stage == Stage::Installed)
    }

    /// Nothing of the job is, or may be, in any switch.
    pub(crate) fn holds_nothing(&self) -> bool {
        !self.holds_index && self.generations.iter().all(|generation| generation.switches.is_empty())
    }

    /// The hosts that it waits for before it starts: workers by rank, then the server.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        let plan = &self.generation().plan;
        let workers = plan.workers.iter().map(|worker| worker.name.as_str());
        workers.chain([plan.server.name.as_str()])
    }
}
