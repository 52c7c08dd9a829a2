//! The reductions that a worker takes part in: each has a task, so that the host contributes to it whatever the
//! training code is doing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinSet};
use tributary_api::ps::JoinGroup;

use super::fabric::{Contribution, Fabric, FabricError};

/// A round and what to give to it.
type Rounds = mpsc::UnboundedSender<(u64, Contribution)>;

/// One session's reductions. Dropping this is leaving them.
pub(super) struct Groups {
    fabric: Option<Arc<dyn Fabric>>,
    /// Values that are added up.
    length: usize,
    members: BTreeMap<u64, (Rounds, AbortHandle)>,
    /// A task's output says why it cannot go on.
    tasks: JoinSet<FabricError>,
}

impl Groups {
    pub(super) fn new(fabric: Option<Arc<dyn Fabric>>, length: usize) -> Self {
        Self { fabric, length, members: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Begins to take part.
    pub(super) fn join(&mut self, join: JoinGroup) {
        // Without a fabric the server has no host to ask for.
        let Some(fabric) = self.fabric.clone() else { return };
        let (group, length) = (join.group, self.length);
        let (rounds, receiver) = mpsc::unbounded_channel();
        let part = async move { take_part(&*fabric, &join, length, receiver).await };
        self.members.insert(group, (rounds, self.tasks.spawn(part)));
    }

    /// Whether the host takes part, as far as is known.
    pub(super) fn has(&self, group: u64) -> bool {
        self.members.contains_key(&group)
    }

    /// Contributes to a round. To one of a group that has failed here nothing needs to be given.
    pub(super) fn contribute(&self, group: u64, round: u64, contribution: Contribution) {
        if let Some((rounds, _)) = self.members.get(&group) {
            // The task has ended: its failure is about to be told.
            let _ = rounds.send((round, contribution));
        }
    }

    /// Stops, whatever is under way.
    pub(super) fn leave(&mut self, group: u64) {
        if let Some((_, task)) = self.members.remove(&group) {
            task.abort();
        }
    }

    /// Leaves all of them.
    pub(super) fn clear(&mut self) {
        self.members.clear();
        self.tasks.abort_all();
    }

    /// Waits until the host cannot take part in a group any more: which, and why. May be cancelled.
    pub(super) async fn failure(&mut self) -> (u64, String) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let (task, reason) = match ended {
                Ok((task, error)) => (task, error.to_string()),
                // A fabric is the caller's: its panic must not leave the server waiting for a contribution.
                Err(error) => (error.id(), format!("the host's part in the group broke off: {error}")),
            };
            // Others were told to stop.
            if let Some(group) = self.group(task) {
                self.members.remove(&group);
                return (group, reason);
            }
        }
        std::future::pending().await
    }

    /// Whose task this is.
    fn group(&self, task: Id) -> Option<u64> {
        let (group, _) = self.members.iter().find(|(_, (_, handle))| handle.id() == task)?;
        Some(*group)
    }
}

/// Takes part until it is stopped or cannot go on.
async fn take_part(
    fabric: &dyn Fabric,
    join: &JoinGroup,
    length: usize,
    mut rounds: mpsc::UnboundedReceiver<(u64, Contribution)>,
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

    /// A fabric with a flaw.
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
            groups.join(JoinGroup { group, ..JoinGroup::default() });
            groups.contribute(group, 7, Contribution::Zeros);
        }
        groups.leave(1);
        let (group, reason) = timeout(Duration::from_secs(60), groups.failure()).await.unwrap();
        assert_eq!(group, 2);
        assert!(reason.contains("no room for round 7"), "{reason}");
        assert!(!groups.has(2));
    }
}
