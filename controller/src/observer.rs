//! A view of the controller from inside its process, in the terms of its API.

use std::sync::{Arc, Weak};

use tributary_api::v1;

use crate::answer;
use crate::manager::Manager;

/// Looks at a controller's jobs and switches for as long as the controller exists.
#[derive(Debug, Clone)]
pub struct Observer(Weak<Manager>);

impl Observer {
    pub(crate) fn new(manager: &Arc<Manager>) -> Self {
        Self(Arc::downgrade(manager))
    }

    /// All jobs that are alive and the last ones that are over; empty if the controller is gone.
    pub fn jobs(&self) -> Vec<v1::Job> {
        let Some(manager) = self.0.upgrade() else { return Vec::new() };
        let book = manager.book();
        book.jobs.iter().map(|(_, job)| answer::job(&manager.topology(), &book, job)).collect()
    }

    /// The switches that the controller manages, and whether they are there; empty if the controller is gone.
    pub fn switches(&self) -> Vec<v1::Switch> {
        self.0.upgrade().map(|manager| answer::switches(&manager)).unwrap_or_default()
    }

    /// The counters of every switch, as they are now or as last read; empty if the controller is gone.
    pub async fn counters(&self) -> Vec<v1::SwitchCounters> {
        match self.0.upgrade() {
            Some(manager) => answer::all_counters(&manager, |_| true).await,
            None => Vec::new(),
        }
    }
}
