//! The registry of all jobs, including jobs that are over.

use std::collections::BTreeMap;

use tokio::time::Instant;
use tributary_api::v1;
use tributary_topology::NodeKey;

use super::error::JobError;
use super::generation::JobKey;
use super::job::Job;
use super::record::JobRecord;

/// The number of jobs that stay in the list after they are over.
pub const JOB_HISTORY: usize = 256;

/// All jobs by their order of creation.
///
/// The [`JobRecord`] of a job is its persistent part. A restarted controller can rebuild the registry from the stored
/// records.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    jobs: BTreeMap<JobKey, Job>,
    created: JobKey,
}

impl Registry {
    /// Adds a job. Fails if another job of the same name is alive.
    pub(crate) fn add(&mut self, record: JobRecord, now: Instant) -> Result<JobKey, JobError> {
        self.check_name_free(&record.name)?;
        self.created += 1;
        self.jobs.insert(self.created, Job::new(record, now));
        self.forget();
        Ok(self.created)
    }

    /// Adds a job that an earlier controller managed.
    pub(crate) fn take_up(
        &mut self,
        key: JobKey,
        record: JobRecord,
        (has_started, elastic): (bool, bool),
        now: Instant,
    ) {
        let job = if has_started { Job::take_up(record, elastic, now) } else { Job::new(record, now) };
        self.created = self.created.max(key);
        self.jobs.insert(key, job);
    }

    /// Checks that no job with that name is alive.
    pub(crate) fn check_name_free(&self, name: &str) -> Result<(), JobError> {
        match self.iter().any(|(_, job)| job.is_alive() && job.record.name == name) {
            true => Err(JobError::AlreadyExists(name.to_owned())),
            false => Ok(()),
        }
    }

    /// Returns the latest job with that name.
    pub(crate) fn latest(&self, name: &str) -> Result<JobKey, JobError> {
        Ok(self.find_latest(name)?.0)
    }

    /// Returns the latest job with that name, if `token` is its token.
    pub(crate) fn authorize(&self, name: &str, token: &[u8]) -> Result<JobKey, JobError> {
        let (key, job) = self.find_latest(name)?;
        match token {
            [] => Err(JobError::NoToken(name.to_owned())),
            token if job.record.token.matches(token) => Ok(key),
            _ => Err(JobError::WrongToken(name.to_owned())),
        }
    }

    fn find_latest(&self, name: &str) -> Result<(JobKey, &Job), JobError> {
        let found = self.iter().rev().find(|(_, job)| job.record.name == name);
        found.ok_or_else(|| JobError::NoSuchJob(name.to_owned()))
    }

    /// Notes a host's heartbeat in each job in which the host takes part.
    /// The host's reports on other jobs are ignored.
    pub(crate) fn note_heartbeat(&mut self, host: (NodeKey, &str), heartbeat: &v1::Heartbeat, now: Instant) {
        for job in self.jobs.values_mut().filter(|job| job.is_alive()) {
            job.note_heartbeat(host, heartbeat, now);
        }
    }

    pub(crate) fn get(&self, key: JobKey) -> Option<&Job> {
        self.jobs.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: JobKey) -> Option<&mut Job> {
        self.jobs.get_mut(&key)
    }

    /// Returns the jobs of the groups of a job that are alive.
    pub(crate) fn groups_of(&self, parent: JobKey) -> Vec<JobKey> {
        let is_own = |job: &Job| {
            job.is_alive() && job.record.group.as_ref().is_some_and(|group| group.parent == parent)
        };
        self.iter().filter(|(_, job)| is_own(job)).map(|(key, _)| key).collect()
    }

    /// Iterates over all jobs in order of creation.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (JobKey, &Job)> {
        self.jobs.iter().map(|(key, job)| (*key, job))
    }

    /// Leaves every job to the next controller, by closing the members' streams.
    /// The streams end without an event, from which members conclude that the controller is unreachable.
    pub(crate) fn hang_up(&mut self) {
        for job in self.jobs.values_mut() {
            job.participants.clear();
        }
    }

    /// Fails every job that is alive, because the controller stops.
    pub(crate) fn fail_all(&mut self) {
        let failure = v1::JobFailed { reason: "the controller was shut down".to_owned(), wrong_sum: false };
        for job in self.jobs.values_mut() {
            job.fail(failure.clone());
        }
    }

    /// Removes the oldest jobs that are over, so that at most [`JOB_HISTORY`] stay. Jobs with resources
    /// always stay.
    fn forget(&mut self) {
        let over = |(key, job): (&JobKey, &Job)| (!job.holds_resources()).then_some(*key);
        let over: Vec<JobKey> = self.jobs.iter().filter_map(over).collect();
        for key in over.iter().take(over.len().saturating_sub(JOB_HISTORY)) {
            self.jobs.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_planner::Aggregation;

    use super::*;
    use crate::testing::{TERMS, controller_state, request};
    use crate::token::Token;

    fn record(name: &str) -> JobRecord {
        let mut state = controller_state(64, 1);
        let key = state.create(name, &request(64, Aggregation::Tree), TERMS).unwrap();
        state.jobs.get(key).unwrap().record.clone()
    }

    #[test]
    fn a_name_is_free_again_when_its_job_is_over_and_means_the_latest() {
        let (mut registry, now) = (Registry::default(), Instant::now());
        let first = record("job");
        let second = JobRecord { token: Token::random(), ..first.clone() };
        let key = registry.add(first.clone(), now).unwrap();
        assert_eq!(registry.add(second.clone(), now), Err(JobError::AlreadyExists("job".into())));
        assert_eq!(registry.authorize("job", &first.token.to_bytes()), Ok(key));
        registry.get_mut(key).unwrap().end();
        let later = registry.add(second.clone(), now).unwrap();
        assert_eq!(registry.authorize("job", &second.token.to_bytes()), Ok(later));
        assert_eq!(
            registry.authorize("job", &first.token.to_bytes()),
            Err(JobError::WrongToken("job".into()))
        );
        assert_eq!(registry.authorize("job", &[]), Err(JobError::NoToken("job".into())));
    }

    #[test]
    fn only_jobs_that_hold_nothing_are_forgotten() {
        let (mut registry, now) = (Registry::default(), Instant::now());
        let holding = record("job");
        let mut nothing = JobRecord { holds_index: false, ..holding.clone() };
        nothing.generations[0].switches.clear();
        let kept = registry.add(holding, now).unwrap();
        registry.get_mut(kept).unwrap().end();
        let count = 2 * JOB_HISTORY;
        for _ in 0..count {
            let key = registry.add(nothing.clone(), now).unwrap();
            registry.get_mut(key).unwrap().end();
        }
        let keys: Vec<_> = registry.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), 1 + JOB_HISTORY + 1, "the one that holds, the history, and the last one");
        assert_eq!((keys[0], keys[keys.len() - 1]), (kept, 1 + count as JobKey));
    }
}
