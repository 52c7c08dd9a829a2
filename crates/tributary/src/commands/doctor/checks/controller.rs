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
            format!("cannot write its jobs down: {problem}"),
            "repair that; jobs run on as they are meanwhile, but what dies is not worked around, and none is created",
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
