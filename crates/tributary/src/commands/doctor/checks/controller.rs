//! Checks of the controller itself.

use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

/// Checks that the controller can write its journal, so that its jobs survive a restart.
pub(super) fn check(snapshot: &Snapshot) -> Option<Finding> {
    let problem = &snapshot.controller.journal_problem;
    (!problem.is_empty()).then(|| {
        Finding::problem(
            Code::JobsNotWritten,
            "controller".to_owned(),
            format!("cannot record its jobs: {problem}"),
            "repair this; meanwhile, jobs continue unchanged, but the controller replaces nothing that dies, and \
             creates no job",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::healthy;
    use super::*;

    #[test]
    fn a_disk_that_takes_no_jobs_is_a_problem() {
        let mut snapshot = healthy();
        assert_eq!(check(&snapshot), None);
        snapshot.controller.journal_problem = "/state/jobs.redb: the disk does not answer".into();
        let found = check(&snapshot).unwrap();
        assert!(found.code == Code::JobsNotWritten && found.what.contains("/state/jobs.redb: the disk"));
    }
}
