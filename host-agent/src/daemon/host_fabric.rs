//! Access to the fabric for workers of parameter servers. Each group reduces its gradients in one job
//! of this host.

use std::collections::TryReserveError;
use std::fmt;
use std::sync::Arc;

use tonic::Status;
use tributary_protocol::{AllReduce, Collective, ElementType, GradientData, JointAllReduce, Tensor};
use tributary_ps::client::{Contribution, Contributor, Fabric, FabricError, operation_name};
use tributary_wire::SliceWidth;

use super::account::Account;
use super::jobs::Jobs;
use super::member::{Member, Phase};
use crate::JobMember;
use crate::worker::{ReduceRequest, StepPart, WorkerAgent};

/// Access to this host's fabric for one process.
pub(crate) struct HostFabric {
    pub(crate) jobs: Arc<Jobs>,
    /// The account of the process's session.
    pub(crate) account: Arc<Account>,
}

impl fmt::Debug for HostFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFabric").field("host", &self.jobs.host).finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl Fabric for HostFabric {
    fn host(&self) -> &str {
        &self.jobs.host
    }

    async fn join(
        &self,
        job: &str,
        token: &[u8],
        length: usize,
    ) -> Result<Box<dyn Contributor>, FabricError> {
        let (jobs, account) = (Arc::clone(&self.jobs), Arc::clone(&self.account));
        let member = JobMember::worker(job, token, &jobs.host);
        // The join runs in its own task. A cancelled join therefore completes, and the host then leaves the job as
        // usual. An interrupted join would fail the job, which the group's server is about to end.
        let joining = async move {
            let joined = jobs.attach(member, 0, account.user()).await;
            let member = joined.map_err(|status| words(&status))?;
            Ok(Box::new(GroupMember { member, length, account }) as Box<dyn Contributor>)
        };
        tokio::spawn(joining).await?
    }
}

/// This host's membership in a group's job.
struct GroupMember {
    member: Arc<Member>,
    length: usize,
    account: Arc<Account>,
}

#[tonic::async_trait]
impl Contributor for GroupMember {
    async fn contribute(&mut self, round: u64, contribution: Contribution) -> Result<(), FabricError> {
        let agent = self.started().await?;
        let held = Box::new(self.account.take(memory(self.length, agent.width))?);
        let operation = operation(round, self.length, &contribution)?;
        // Only the group's server needs the sum, although every member receives it. The reduction runs in its own task,
        // so that it continues if the worker leaves the group.
        let part = StepPart::OfStep { samples: operation.weight, goes_on: false };
        let operations = JointAllReduce::from(operation).divided(agent.stripes, agent.width);
        let reduction = agent.start_reduce(ReduceRequest { part, held, ..ReduceRequest::new(operations) });
        let member = Arc::clone(&self.member);
        let reduced = async move {
            match reduction.await {
                Ok(_) => Ok(()),
                Err(error) => Err(member.explain(error).await),
            }
        };
        tokio::spawn(reduced).await??;
        Ok(())
    }
}

impl GroupMember {
    /// Waits until all members have joined.
    async fn started(&self) -> Result<Arc<WorkerAgent>, FabricError> {
        let mut phase = self.member.phase();
        // An error means that the phase will not change any more.
        let _ = phase.wait_for(|phase| !matches!(phase, Phase::Waiting)).await;
        self.member.agent().map_err(|status| words(&status))
    }
}

impl Drop for GroupMember {
    /// Leaves the job, unless the job has ended. An earlier departure would fail the job. The group's
    /// server ends the job when it notices that a member has gone.
    fn drop(&mut self) {
        self.member.leave_unless_ended("its worker has left the group, and nobody has ended the job");
    }
}

/// Returns the memory in bytes that the reduction of `length` values takes with slices of width
/// `width`.
fn memory(length: usize, width: SliceWidth) -> u64 {
    Tensor {
        name: String::new(),
        element_type: ElementType::F32,
        len: length,
        collective: Collective::AllReduce,
    }
    .memory(width)
}

/// Builds the all-reduce for a contribution.
/// Returns an error if memory for the data cannot be allocated.
fn operation(round: u64, length: usize, contribution: &Contribution) -> Result<AllReduce, TryReserveError> {
    let mut data = Vec::new();
    let weight = match contribution {
        Contribution::Gradient { values, weight } => {
            data.try_reserve_exact(values.len())?;
            data.extend_from_slice(values);
            weight.get()
        }
        Contribution::Zeros => {
            data.try_reserve_exact(length)?;
            data.resize(length, 0.0);
            0
        }
    };
    Ok(AllReduce { name: operation_name(round), data: GradientData::F32(data), weight })
}

fn words(status: &Status) -> FabricError {
    status.message().into()
}
