//! Reports to the caller about the workers and servers for which a worker waits.

use std::time::Duration;

use tributary_api::ps;

/// The most workers that a report names.
const NAMED: usize = 8;

/// A report about a wait of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The event that the worker waits for, as text for a user.
    pub what: String,
    /// Time for which the worker has waited.
    pub time: Duration,
}

impl Waiting {
    /// Describes the wait that a server reports.
    pub(super) fn told(server: &str, told: &ps::Waiting) -> Self {
        let what = match (named(&told.workers), told.starts_in_milliseconds) {
            (Some(missing), Some(start)) => format!(
                "training to start: {missing} not joined at the parameter server {server}, which starts without them in \
                 {} s",
                start.div_ceil(1000)
            ),
            (Some(missing), None) => {
                format!("gradients that {missing} not handed in yet at the parameter server {server}")
            }
            (None, _) => format!("the parameter server {server}, which has the gradients of all workers"),
        };
        Self { what, time: Duration::from_millis(told.waited_milliseconds) }
    }

    /// Describes the wait for an unreachable server.
    pub(super) fn unreachable(server: &str, reason: &str, time: Duration) -> Self {
        Self { what: format!("the parameter server {server}, which is unreachable: {reason}"), time }
    }
}

/// Returns text such as "workers 1 and 2 have", which names the first workers and counts the others.
fn named(workers: &[u32]) -> Option<String> {
    let (named, rest) = workers.split_at(workers.len().min(NAMED));
    let named: Vec<_> = named.iter().map(ToString::to_string).collect();
    Some(match (named.split_last()?, rest.len()) {
        ((only, []), 0) => format!("worker {only} has"),
        ((last, others), 0) => format!("workers {} and {last} have", others.join(", ")),
        (_, more) => format!("workers {} and {more} more have", named.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_names_the_workers_and_the_time() {
        let said = |workers: Vec<u32>, starts_in_milliseconds| {
            let told = ps::Waiting { workers, starts_in_milliseconds, waited_milliseconds: 7300 };
            let Waiting { what, time } = Waiting::told("ps:1", &told);
            assert_eq!(time.as_secs(), 7);
            what
        };
        assert_eq!(
            said(vec![1], Some(2100)),
            "training to start: worker 1 has not joined at the parameter server ps:1, which starts without them in 3 s"
        );
        assert!(
            said(vec![0, 4, 5], None).contains("gradients that workers 0, 4 and 5 have not handed in yet")
        );
        assert!(said((0..10).collect(), None).contains("workers 0, 1, 2, 3, 4, 5, 6, 7 and 2 more have not"));
        assert!(said(Vec::new(), None).contains("ps:1, which has the gradients of all workers"));
    }
}
