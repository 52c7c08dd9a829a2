//! Reports of a worker of the measurement to the runner.
//!
//! A report is one line of JSON on the worker's standard output.

use serde::{Deserialize, Serialize};

/// Something that happened to a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub(super) enum WorkerEvent {
    /// A step is done.
    Step {
        /// The number of steps before this one.
        step: u32,
        /// Time from the end of the previous step to the end of this step, in seconds.
        seconds: f64,
        /// Members that contributed to the sum.
        members: u32,
        /// Samples that these members processed together.
        samples: u32,
    },
    /// The members have changed, or the shards of data that they process.
    Regrouped {
        /// The ranks that are in the job.
        members: Vec<u16>,
        /// The ranks whose shards of data the members process.
        shards: Vec<u16>,
    },
    /// The job continues without this worker for now.
    Detached {
        /// True if the other workers process this worker's data.
        data_adopted: bool,
    },
    /// This worker has no part in the job now, and tries to rejoin.
    Out,
    /// All steps are done.
    Done {
        /// Share of the held-out images that the model classifies correctly.
        accuracy: f64,
        /// Digest of the model's bits. It is the same on every member.
        digest: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_comes_back() {
        for event in [
            WorkerEvent::Step { step: 3, seconds: 0.25, members: 7, samples: 112 },
            WorkerEvent::Regrouped { members: vec![0, 2], shards: vec![0, 1, 2] },
            WorkerEvent::Detached { data_adopted: true },
            WorkerEvent::Out,
            WorkerEvent::Done { accuracy: 0.95, digest: u64::MAX },
        ] {
            let line = serde_json::to_string(&event).unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(serde_json::from_str::<WorkerEvent>(&line).unwrap(), event);
        }
    }
}
