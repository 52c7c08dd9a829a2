//! Members that try to rejoin a job that this controller does not know.
//! The job was created on another controller, or the journal has been lost.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tributary_api::MAX_JOB_NAME;

/// The maximum number of names that are stored. It is limited because the names come from outside.
/// Further names are not logged.
const REMEMBERED: usize = 64;

/// Names of jobs that hosts tried to rejoin and that this controller does not know.
///
/// The controller logs each name once, regardless of the number of members.
#[derive(Debug, Default)]
pub(crate) struct Orphans(Mutex<BTreeSet<String>>);

impl Orphans {
    /// Notes that a host has tried to rejoin a job that this controller does not know.
    pub(crate) fn note(&self, job: &str, host: &str) {
        if self.is_news(job) {
            tracing::warn!(
                job,
                host,
                "comes back to a job that this controller does not know, and the job is over: was it created on another \
                 controller, or was the folder of this one's state (--state) changed, or its jobs.redb removed, or is \
                 there none?"
            );
        }
    }

    fn is_news(&self, job: &str) -> bool {
        // A panic of another thread cannot damage the set, because names are only added.
        let mut names = self.0.lock();
        names.len() < REMEMBERED && job.len() <= MAX_JOB_NAME && names.insert(job.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_is_said_once_and_names_from_outside_do_not_fill_the_memory() {
        let orphans = Orphans::default();
        assert!(orphans.is_news("job") && !orphans.is_news("job") && orphans.is_news("other"));
        let said = (0..1000).filter(|number| orphans.is_news(&number.to_string())).count();
        assert_eq!(said, REMEMBERED - 2);
        assert!(!Orphans::default().is_news(&"x".repeat(1 << 20)), "no job has that name");
    }
}
