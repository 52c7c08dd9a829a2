//! The reductions in which a worker takes part.
//!
//! Each reduction has its own task, so that the host contributes even while the training code computes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::{AbortHandle, Id, JoinSet};
use tributary_api::ps::JoinGroup;

use super::host_fabric::{Contribution, Fabric, FabricError};

/// The most reductions in which a worker takes part at once: the present group's reduction, and older
/// ones whose last rounds are still in progress. A server that opens more is faulty.
const GROUPS: usize = 16;
/// The most rounds of one reduction that may be queued. Each round needs another worker's gradient.
const ROUNDS: usize = 1024;
/// The most gradients that may be in use by sums: the latest one, and one of a group that has failed.
const GRADIENTS: usize = 2;
/// The most bytes in the name and token of a fabric job together.
const JOIN_BYTES: usize = 1024;

/// The channel of rounds, each with this worker's contribution.
type Rounds = mpsc::Sender<(u64, Contribution)>;

/// The reductions of one session. Dropping this value leaves them.
pub(super) struct Groups {
    fabric: Option<Arc<dyn Fabric>>,
    /// The number of values that a reduction aggregates.
    length: usize,
    members: BTreeMap<u64, (Rounds, AbortHandle)>,
    /// Gradients that were contributed to a sum and may still be in use.
    gradients: Vec<Weak<[f32]>>,
    /// The reductions' tasks. A task returns the error that ended it.
    tasks: JoinSet<FabricError>,
}

impl Groups {
    pub(super) fn new(fabric: Option<Arc<dyn Fabric>>, length: usize) -> Self {
        Self { fabric, length, members: BTreeMap::new(), gradients: Vec::new(), tasks: JoinSet::new() }
    }

    /// Starts to take part in a reduction.
    ///
    /// # Errors
    /// The server's request exceeds a limit of this worker.
    pub(super) fn join(&mut self, join: JoinGroup) -> Result<(), &'static str> {
        // The host has no fabric, so the server's request cannot be meant for it.
        let Some(fabric) = self.fabric.clone() else { return Ok(()) };
        if self.members.len() >= GROUPS {
            return Err("this worker takes part in too many groups already");
        }
        if join.job.len() + join.token.len() > JOIN_BYTES {
            return Err("the group's job has too long a name or token");
        }
        let (group, length) = (join.group, self.length);
        let (rounds, receiver) = mpsc::channel(ROUNDS);
        let part = async move { take_part(&*fabric, &join, length, receiver).await };
        let joined = (rounds, self.tasks.spawn(part));
        if let Some((_, task)) = self.members.insert(group, joined) {
            task.abort();
        }
        Ok(())
    }

    /// Returns true if, as far as this client knows, the host takes part in this group.
    pub(super) fn has(&self, group: u64) -> bool {
        self.members.contains_key(&group)
    }

    /// Contributes to a round. Does nothing if the group has already failed on this host.
    ///
    /// # Errors
    /// The server's request exceeds a limit of this worker; the worker then leaves the group.
    pub(super) fn contribute(
        &mut self,
        group: u64,
        round: u64,
        contribution: Contribution,
    ) -> Result<(), &'static str> {
        let Some((rounds, _)) = self.members.get(&group) else { return Ok(()) };
        let given = match &contribution {
            Contribution::Gradient { values, .. } => note(&mut self.gradients, values),
            Contribution::Zeros => Ok(()),
        };
        let sent = given.and_then(|()| match rounds.try_send((round, contribution)) {
            // The task has ended; `failure` will report its error.
            Ok(()) | Err(TrySendError::Closed(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err("too many rounds of the group wait for each other"),
        });
        if sent.is_err() {
            self.leave(group);
        }
        sent
    }

    /// Leaves a group, and cancels its unfinished rounds.
    pub(super) fn leave(&mut self, group: u64) {
        if let Some((_, task)) = self.members.remove(&group) {
            task.abort();
        }
    }

    /// Leaves all groups.
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.tasks.abort_all();
    }

    /// Waits until a group fails on this host; returns the group and the reason. Cancel safe.
    pub(super) async fn failure(&mut self) -> (u64, String) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let (task, reason) = match ended {
                Ok((task, error)) => (task, error.to_string()),
                // The fabric is the caller's code. If it panics, this host must report a failure, because the
                // server would otherwise wait for the contribution.
                Err(error) => (error.id(), format!("the host's part in the group broke off: {error}")),
            };
            // A task without a group has ended because the worker left the group.
            if let Some(group) = self.group(task) {
                self.members.remove(&group);
                return (group, reason);
            }
        }
        std::future::pending().await
    }

    /// Returns the group of a task.
    fn group(&self, task: Id) -> Option<u64> {
        let (group, _) = self.members.iter().find(|(_, (_, handle))| handle.id() == task)?;
        Some(*group)
    }
}

/// Records a gradient that is contributed to a sum.
///
/// # Errors
/// Too many other gradients are still in use.
fn note(gradients: &mut Vec<Weak<[f32]>>, values: &Arc<[f32]>) -> Result<(), &'static str> {
    let given = Arc::downgrade(values);
    gradients.retain(|there| there.strong_count() > 0 && !there.ptr_eq(&given));
    if gradients.len() >= GRADIENTS {
        return Err("too many gradients wait for their sums");
    }
    gradients.push(given);
    Ok(())
}

/// Takes part in a group until the task is cancelled or an error occurs.
async fn take_part(
    fabric: &dyn Fabric,
    join: &JoinGroup,
    length: usize,
    mut rounds: mpsc::Receiver<(u64, Contribution)>,
) -> FabricError {
    let mut contributor = match fabric.join(&join.job, &join.token, length).await {
        Ok(contributor) => contributor,
        Err(error) => return error,
    };
    while let Some((round, contribution)) = rounds.recv().await {
        if let Err(error) = contributor.contribute(round, contribution).await {
            return error;
        }
    }
    "nobody asks for contributions any more".into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::client::Contributor;

    /// A fabric that panics.
    #[derive(Debug)]
    struct Flawed;

    #[tonic::async_trait]
    impl Fabric for Flawed {
        fn host(&self) -> &str {
            "flawed"
        }

        async fn join(&self, _: &str, _: &[u8], _: usize) -> Result<Box<dyn Contributor>, FabricError> {
            Ok(Box::new(Flawed))
        }
    }

    #[tonic::async_trait]
    impl Contributor for Flawed {
        async fn contribute(&mut self, round: u64, _: Contribution) -> Result<(), FabricError> {
            panic!("no room for round {round}")
        }
    }

    #[tokio::test]
    async fn a_part_that_panics_has_failed_unless_it_was_left() {
        let mut groups = Groups::new(Some(Arc::new(Flawed)), 1);
        for group in [1, 2] {
            groups.join(JoinGroup { group, ..JoinGroup::default() }).unwrap();
            groups.contribute(group, 7, Contribution::Zeros).unwrap();
        }
        groups.leave(1);
        let (group, reason) = timeout(Duration::from_secs(60), groups.failure()).await.unwrap();
        assert_eq!(group, 2);
        assert!(reason.contains("no room for round 7"), "{reason}");
        assert!(!groups.has(2));
    }
}
