//! All jobs, those that are over among them.

use std::collections::BTreeMap;

use super::error::JobError;
use super::job::Job;
use super::record::JobRecord;

/// A job's place in the order of creation; never used again.
pub(crate) type JobKey = u64;

/// Jobs that are over and still listed.
const HISTORY: usize = 256;

/// All jobs by their order of creation.
///
/// A job's [`JobRecord`] is all of it that is worth keeping: a store that is told of each record when it
/// comes and goes can rebuild the registry of a controller that starts again.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    jobs: BTreeMap<JobKey, Job>,
    created: JobKey,
}

impl Registry {
    /// Adds a job; its name must not be that of a job which is alive.
    pub(crate) fn add(&mut self, record: JobRecord) -> Result<JobKey, JobError> {
        self.check_name_free(&record.name)?;
        self.created += 1;
        self.jobs.insert(self.created, Job::new(record));
        self.forget();
        Ok(self.created)
    }

    /// No job that is alive has that name.
    pub(crate) fn check_name_free(&self, name: &str) -> Result<(), JobError> {
        match self.iter().any(|(_, job)| job.is_alive() && job.record.name == name) {
            true => Err(JobError::AlreadyExists(name.to_owned())),
            false => Ok(()),
        }
    }

    /// The latest job of that name, if `token` is its own.
    pub(crate) fn authorize(&self, name: &str, token: &[u8]) -> Result<JobKey, JobError> {
        let (key, job) = self
            .jobs
            .iter()
            .rev()
            .find(|(_, job)| job.record.name == name)
            .ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
        if job.record.token.matches(token) { Ok(*key) } else { Err(JobError::WrongToken(name.to_owned())) }
    }

    pub(crate) fn get(&self, key: JobKey) -> Option<&Job> {
        self.jobs.get(&key)
    }

    pub(crate) fn get_mut(&mut self, key: JobKey) -> Option<&mut Job> {
        self.jobs.get_mut(&key)
    }

    /// All of them in order of creation.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (JobKey, &Job)> {
        self.jobs.iter().map(|(key, job)| (*key, job))
    }

    /// Fails every job that is alive.
    pub(crate) fn fail_all(&mut self, reason: &str) {
        for job in self.jobs.values_mut() {
            job.fail(reason);
        }
    }

    /// Drops the oldest jobs that are over, once they are many. What still holds resources stays.
    fn forget(&mut self) {
        let over = |(key, job): (&JobKey, &Job)| (!job.holds_resources()).then_some(*key);
        let over: Vec<JobKey> = self.jobs.iter().filter_map(over).collect();
        for key in over.iter().take(over.len().saturating_sub(HISTORY)) {
            self.jobs.remove(key);
        }
    }
}
