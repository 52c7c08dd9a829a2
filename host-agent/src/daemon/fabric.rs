//! The fabric, as the workers of parameter servers use it: each group's reduction is a job of this host.

use std::fmt;
use std::sync::Arc;

use tonic::Status;
use tributary_protocol::{AllReduce, GradientData};
use tributary_ps::client::{Contribution, Contributor, Fabric, FabricError};

use super::jobs::Jobs;
use super::member::{Member, Phase};
use super::running::Running;
use crate::worker::Terms;

/// This host's access to the fabric.
pub(crate) struct HostFabric(pub(crate) Arc<Jobs>);

impl fmt::Debug for HostFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostFabric").field(&self.0.host).finish()
    }
}

#[tonic::async_trait]
impl Fabric for HostFabric {
    fn host(&self) -> &str {
        &self.0.host
    }

    async fn join(
        &self,
        job: &str,
        token: &[u8],
        length: usize,
    ) -> Result<Box<dyn Contributor>, FabricError> {
        let member = self.0.attach(job, token, false).await.map_err(|status| words(&status))?;
        Ok(Box::new(GroupMember { member, length }))
    }
}

/// This host's part in a group's job.
struct GroupMember {
    member: Arc<Member>,
    length: usize,
}

#[tonic::async_trait]
impl Contributor for GroupMember {
    async fn contribute(&mut self, round: u64, contribution: Contribution) -> Result<(), FabricError> {
        let running = self.started().await?;
        let operation = operation(round, self.length, contribution);
        let agent = Arc::clone(&running);
        // The sum comes back to everyone, and is the server's alone to use.
        let reduced =
            tokio::task::spawn_blocking(move || agent.reduce(operation, Terms::default()).map(drop)).await?;
        if let Err(error) = &reduced {
            running.report_wrong_sum(error).await;
        }
        Ok(reduced?)
    }
}

impl GroupMember {
    /// Waits until all members have joined.
    async fn started(&self) -> Result<Arc<Running>, FabricError> {
        let mut phase = self.member.phase();
        // An error means that nothing will change any more.
        let _ = phase.wait_for(|phase| !matches!(phase, Phase::Waiting)).await;
        self.member.running().map_err(|status| words(&status))
    }
}

impl Drop for GroupMember {
    /// Whoever of the group goes, its server sees that and ends the job: to leave before would fail it.
    fn drop(&mut self) {
        self.member.leave_unless_ended("its worker has left the group, and nobody has ended the job");
    }
}

fn operation(round: u64, length: usize, contribution: Contribution) -> AllReduce {
    let (values, weight) = match contribution {
        Contribution::Gradient { values, weight } => (values.to_vec(), weight.get()),
        Contribution::Zeros => (vec![0.0; length], 0),
    };
    AllReduce { name: format!("gradient of round {round}"), data: GradientData::F32(values), weight }
}

fn words(status: &Status) -> FabricError {
    status.message().into()
}
