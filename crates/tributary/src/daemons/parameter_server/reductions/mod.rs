//! The reductions of synchronous groups. Each is a fabric job that is created for one group and ends
//! with it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tributary_host_agent::Servers;
use tributary_ps::server::{GroupEvents, GroupFabric, GroupRequest, Reduction};

use super::reduction::Wanted;
use crate::daemons::member::Member;

/// Time for which a server that stops waits for its reductions to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The reductions of this host, and the host's membership in the fabric.
pub(crate) struct Reductions {
    member: Arc<Member>,
    servers: Servers,
    runtime: Handle,
    /// A random number in the names of this process's fabric jobs. It distinguishes them from the jobs of
    /// other processes and of earlier runs.
    life: u32,
    running: Mutex<JoinSet<()>>,
}

impl Reductions {
    /// Creates an empty set of reductions. Each reduction's agent is registered with `servers`. Must be
    /// called on the runtime that runs the reductions.
    pub(crate) fn new(member: Arc<Member>, servers: Servers) -> Self {
        // `RandomState` has random keys in each process, so the hash is random.
        let life = RandomState::new().hash_one(std::process::id()) as u32;
        Self { member, servers, runtime: Handle::current(), life, running: Mutex::default() }
    }

    /// Waits until the reductions that were dropped have ended.
    pub(crate) async fn finished(&self) {
        let mut running = std::mem::take(&mut *self.running.lock());
        let all = async { while running.join_next().await.is_some() {} };
        if timeout(END_TIMEOUT, all).await.is_err() {
            tracing::warn!("the controller has not ended all reductions before this host leaves");
        }
    }
}

impl GroupFabric for Reductions {
    fn open(&self, request: GroupRequest, events: GroupEvents) -> Box<dyn Reduction> {
        let (expect, expected) = mpsc::unbounded_channel();
        let name = name(&request.job, self.life, request.group);
        let (member, servers) = (Arc::clone(&self.member), self.servers.clone());
        let wanted = Wanted { name, request, events, member, servers };
        let mut running = self.running.lock();
        while running.try_join_next().is_some() {}
        running.spawn_on(wanted.run(expected), &self.runtime);
        Box::new(Rounds(expect))
    }
}

/// The parameter server's handle of a reduction.
/// Dropping it closes the channel, which ends the reduction.
struct Rounds(mpsc::UnboundedSender<u64>);

impl Reduction for Rounds {
    fn expect(&mut self, round: u64) {
        // An error means that the reduction has failed, and has reported its failure already.
        let _ = self.0.send(round);
    }
}

/// Returns the name of a group's fabric job. It starts with the name of the parameter server's job,
/// shortened if necessary.
fn name(job: &str, life: u32, group: u64) -> String {
    let rest = format!(".{life:08x}.g{group}");
    let job: String = job.chars().take(tributary_api::MAX_JOB_NAME - rest.len()).collect();
    job + &rest
}

#[cfg(test)]
mod tests;
