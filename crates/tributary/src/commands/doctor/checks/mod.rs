//! The checks of the doctor. Each is a pure function of one snapshot.

mod certificates;
mod controller;
mod hosts;
mod jobs;
mod limits;
mod losses;
mod machines;
mod switches;
#[cfg(test)]
mod testing;

use super::finding::Finding;
use super::snapshot::Snapshot;
pub(super) use limits::Limits;

/// Returns all findings, the most severe first.
pub(super) fn all(snapshot: &Snapshot, limits: &Limits) -> Vec<Finding> {
    let mut findings: Vec<_> = controller::check(snapshot).into_iter().collect();
    findings.extend(switches::check(snapshot));
    findings.extend(hosts::check(snapshot));
    findings.extend(machines::check(snapshot));
    findings.extend(certificates::check(snapshot, limits));
    findings.extend(jobs::check(snapshot, limits));
    findings.extend(losses::check(snapshot));
    findings.sort_by_key(|finding| (finding.severity, finding.code));
    // Both ends of a faulty cable report it, so duplicates are removed.
    findings.into_iter().fold(Vec::new(), |mut told, finding| {
        if !told.iter().any(|other: &Finding| other.is_same(&finding)) {
            told.push(finding);
        }
        told
    })
}

#[cfg(test)]
mod tests {
    use super::testing::{LIMITS, healthy};
    use super::*;

    #[test]
    fn in_a_healthy_system_there_is_nothing() {
        assert_eq!(all(&healthy(), &LIMITS), []);
    }
}
