//! Processes of this host that wait until all processes of their job on this host have come.
//!
//! The host joins a job only then. Otherwise the other hosts could start all-reduces to which this host cannot
//! contribute yet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::Status;

use super::member::HostProcess;

/// The processes that wait, by the name of their job.
#[derive(Debug, Default)]
pub(super) struct Arrivals(Mutex<BTreeMap<String, Arc<Gate>>>);

/// The processes of one job that wait.
#[derive(Debug)]
struct Gate {
    /// The number of processes of the host in the job.
    of: u32,
    present: Mutex<BTreeSet<u32>>,
    /// True once all processes have come.
    is_open: watch::Sender<bool>,
}

impl Arrivals {
    /// Adds a process, which waits until the others have come.
    ///
    /// # Errors
    /// Another process has the same number, or the processes differ in their number.
    pub(super) fn add(self: &Arc<Self>, job: &str, process: HostProcess) -> Result<Arrival, Status> {
        let HostProcess { number, of } = process;
        let mut gates = self.0.lock();
        let gate = gates.entry(job.to_owned()).or_insert_with(|| {
            Arc::new(Gate { of, present: Mutex::default(), is_open: watch::Sender::new(false) })
        });
        if gate.of != of {
            let problem = format!(
                "a process of this host says that {} processes take part in job {job:?} here, and this one says that \
                 there are {of}: start all with the same number",
                gate.of
            );
            return Err(Status::invalid_argument(problem));
        }
        let mut present = gate.present.lock();
        if !present.insert(number) {
            let problem = format!(
                "another process of this host joins job {job:?} as process {number} of {of}: give each its own number"
            );
            return Err(Status::already_exists(problem));
        }
        let is_complete = present.len() == of as usize;
        drop(present);
        let gate = Arc::clone(gate);
        if is_complete {
            gate.is_open.send_replace(true);
            // The next process with this job waits for others again, unless the host is a member by then.
            gates.remove(job);
        }
        Ok(Arrival { arrivals: Arc::clone(self), job: job.to_owned(), number, gate })
    }
}

/// A process that waits. Dropping it takes the process back.
#[derive(Debug)]
pub(super) struct Arrival {
    arrivals: Arc<Arrivals>,
    job: String,
    number: u32,
    gate: Arc<Gate>,
}

impl Arrival {
    /// Waits until all processes have come.
    pub(super) async fn complete(&self) {
        // The sender lives as long as `self`.
        let _ = self.gate.is_open.subscribe().wait_for(|is_open| *is_open).await;
    }

    /// Returns the numbers of the processes that have not come.
    pub(super) fn missing(&self) -> Vec<u32> {
        let present = self.gate.present.lock();
        (0..self.gate.of).filter(|number| !present.contains(number)).collect()
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut gates = self.arrivals.0.lock();
        let mut present = self.gate.present.lock();
        present.remove(&self.number);
        if present.is_empty() && gates.get(&self.job).is_some_and(|gate| Arc::ptr_eq(gate, &self.gate)) {
            gates.remove(&self.job);
        }
    }
}
