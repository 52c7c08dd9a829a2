//! The interface of a job to the fabric: creates the reductions that the job requests, and forwards
//! their events.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};

use super::command::Command;
use super::group_fabric::{GroupFabric, GroupRequest, Reduction};

/// The open reductions.
pub(super) struct Reductions {
    fabric: Arc<dyn GroupFabric>,
    /// The command channel of the job's own thread. The reference is weak, so that the thread can end with
    /// the server.
    commands: Weak<Sender<Command>>,
    open: BTreeMap<u64, Box<dyn Reduction>>,
}

impl Reductions {
    pub(super) fn new(fabric: Arc<dyn GroupFabric>, commands: Weak<Sender<Command>>) -> Self {
        Self { fabric, commands, open: BTreeMap::new() }
    }

    pub(super) fn open(&mut self, request: GroupRequest) {
        let (group, commands) = (request.group, Weak::clone(&self.commands));
        let events = move |event| {
            if let Some(commands) = commands.upgrade() {
                // If the thread has ended, the job does not need the reduction.
                let _ = commands.send(Command::Fabric { group, event });
            }
        };
        self.open.insert(group, self.fabric.open(request, Arc::new(events)));
    }

    pub(super) fn expect(&mut self, group: u64, round: u64) {
        if let Some(reduction) = self.open.get_mut(&group) {
            reduction.expect(round);
        }
    }

    pub(super) fn close(&mut self, group: u64) {
        self.open.remove(&group);
    }
}
