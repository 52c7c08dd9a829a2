//! A view of the controller for other code in its process. It returns the types of the API.

use std::sync::{Arc, Weak};

use tributary_api::v1;

use crate::answer;
use crate::explain;
use crate::manager::Manager;

/// Reads the jobs and switches of a controller. It does not keep the controller alive.
#[derive(Debug, Clone)]
pub struct Observer(Weak<Manager>);

impl Observer {
    pub(crate) fn new(manager: &Arc<Manager>) -> Self {
        Self(Arc::downgrade(manager))
    }

    /// Returns all jobs that are alive and the last ones that are over; empty if the controller is gone.
    pub fn jobs(&self) -> Vec<v1::Job> {
        let Some(manager) = self.0.upgrade() else { return Vec::new() };
        let state = manager.state();
        state.jobs.iter().map(|job| answer::job(&manager.topology(), &state, job)).collect()
    }

    /// Returns the state of the controller itself; `None` if the controller is gone.
    pub fn controller(&self) -> Option<v1::GetControllerResponse> {
        self.0.upgrade().map(|manager| answer::controller(&manager))
    }

    /// Returns the topology's hosts, in the order of the topology; empty if the controller is gone.
    pub fn hosts(&self) -> Vec<v1::Host> {
        self.0.upgrade().map(|manager| answer::hosts(&manager)).unwrap_or_default()
    }

    /// Returns the topology's links, in the order of the topology; empty if the controller is gone.
    pub fn links(&self) -> Vec<v1::Link> {
        self.0.upgrade().map(|manager| answer::links(&manager)).unwrap_or_default()
    }

    /// Returns the tree of the latest job of that name, and the report on its processes.
    ///
    /// Returns `None` if no such job exists.
    pub fn job(&self, name: &str) -> Option<(v1::GetTreeResponse, v1::ExplainJobResponse)> {
        let manager = self.0.upgrade()?;
        let (state, topology) = (manager.state(), manager.topology());
        let job = state.jobs.get(state.jobs.latest(name).ok()?)?;
        Some((answer::tree(&topology, job), explain::job(&topology, job)))
    }

    /// Returns the events with a number higher than `after`, the oldest first.
    ///
    /// The list is empty if the controller is gone.
    pub fn events(&self, after: u64) -> Vec<v1::FabricEvent> {
        self.0.upgrade().map(|manager| manager.events.after(after)).unwrap_or_default()
    }

    /// Returns the managed switches with their health; empty if the controller is gone.
    pub fn switches(&self) -> Vec<v1::Switch> {
        self.0.upgrade().map(|manager| answer::switches(&manager)).unwrap_or_default()
    }

    /// Returns the counters of every switch, or its last reading if it does not answer; empty if the
    /// controller is gone.
    pub async fn counters(&self) -> Vec<v1::SwitchCounters> {
        match self.0.upgrade() {
            Some(manager) => answer::all_counters(&manager, |_| true).await,
            None => Vec::new(),
        }
    }
}
