//! A look at the controller from inside its process, in the terms of its API.

use std::sync::{Arc, Weak};

use tributary_api::v1;

use crate::answer;
use crate::error::SwitchError;
use crate::manager::Manager;

/// Looks at a controller's jobs and switches, as long as it is there.
#[derive(Debug, Clone)]
pub struct Observer(Weak<Manager>);

impl Observer {
    pub(crate) fn new(manager: &Arc<Manager>) -> Self {
        Self(Arc::downgrade(manager))
    }

    /// The jobs that are alive and the last ones that were; none when the controller is gone.
    pub fn jobs(&self) -> Vec<v1::Job> {
        let Some(manager) = self.0.upgrade() else { return Vec::new() };
        let book = manager.book();
        book.jobs.iter().map(|(_, job)| answer::job(job)).collect()
    }

    /// The counters of every switch, by name in the topology's order, or why they cannot be read; none when the
    /// controller is gone.
    pub async fn counters(&self) -> Vec<(String, Result<v1::SwitchCounters, SwitchError>)> {
        let Some(manager) = self.0.upgrade() else { return Vec::new() };
        let mut all = Vec::new();
        for name in manager.switch_names() {
            let read = manager.counters(|switch| switch == name).await;
            let book = manager.book();
            let counters = read.and_then(|read| {
                let mut told = read
                    .iter()
                    .map(|(key, cells)| answer::counters(&manager.topology, &book.jobs, *key, cells));
                told.next().ok_or_else(|| SwitchError::Stopped { switch: name.clone() })
            });
            all.push((name, counters));
        }
        all
    }
}
