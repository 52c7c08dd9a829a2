//! A job in which this host is a worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use subtle::ConstantTimeEq;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use tonic::Status;
use tributary_api::{ProcessCounts, Role, v1};
use tributary_protocol::{Collective, CollectiveError, OwnedPart, Timers};

use super::collectives::Collectives;
use super::gathering::{Gatherings, Ready};
use crate::error::{AgentError, JobError};
use crate::membership::{Membership, Parting, Speaker};
use crate::part::{self, JobAgent, OpenPort};
use crate::worker::{Situation, WorkerAgent};

/// The time that the host waits for a job's end after it has stopped using the job.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// An order to leave a job.
struct Leave {
    parting: Parting,
    /// Time to wait for the job's end before the host leaves.
    patience: Duration,
}

/// A host's membership in a job, from the join to the job's end. It exists with or without a process
/// that uses it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) job: String,
    token: Vec<u8>,
    phase: watch::Receiver<Phase>,
    leave: mpsc::UnboundedSender<Leave>,
    /// For each training process of the host, its use of the membership.
    processes: Mutex<Vec<Use>>,
    /// The all-reduces of several processes; `None` if the host has one process in the job.
    pub(super) joint: Option<Arc<Gatherings>>,
    /// The rank of the host's first process, once the job has started.
    first_rank: Arc<OnceLock<u32>>,
    /// True if the host is about to leave the job.
    leaving: AtomicBool,
    pub(crate) speaker: Speaker,
    /// The collectives that the job's processes on this host have reported.
    pub(crate) collectives: Collectives,
    /// The time since which the controller has been unreachable; `None` if it is reachable.
    unreachable_since: watch::Receiver<Option<Instant>>,
}

/// The use of a membership by one process of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// No process uses it.
    Vacant,
    Attached,
    /// The process has reached the end of its training.
    Finished,
}

/// A process among the processes of its host that take part in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostProcess {
    /// The process's number, from 0.
    pub(crate) number: u32,
    /// The number of processes of the host.
    pub(crate) of: u32,
}

/// The number of parts of a reduce-scatter that an error lists.
const MOST_PARTS: usize = 64;

/// Describes the parameters of a collective that must be equal on all ranks.
fn described(collective: &Collective, processes: &ProcessCounts) -> String {
    let rank = |worker, process: u32| processes.ranks_of(worker).start + process;
    match collective {
        Collective::AllReduce => String::new(),
        Collective::Broadcast { root, process } => {
            format!(", a broadcast from rank {}", rank(*root, *process))
        }
        Collective::ReduceScatter(parts) => {
            let part = |part: &OwnedPart| format!("{} to rank {}", part.len, rank(part.owner, part.process));
            let parts: Vec<_> = parts.iter().take(MOST_PARTS).map(part).collect();
            format!(", a reduce-scatter of {}", parts.join(", "))
        }
    }
}

/// The phase of a membership.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// The host has joined and waits for the other members.
    Waiting,
    /// The worker takes part in the job.
    Running(Arc<WorkerAgent>),
    /// The job is over.
    Over(JobEnd),
}

/// The outcome of a job for this host: `Ok` if the job has ended, or the error that ended the
/// membership.
pub(crate) type JobEnd = Result<(), Arc<JobError>>;

impl Member {
    /// Returns a member with this number of processes, and the future that does its work. The caller must
    /// spawn the future, which ends with the job. If there are several processes, also returns the receiver of the
    /// all-reduces that all of them have started.
    pub(crate) fn new(
        membership: Membership,
        (token, processes): (Vec<u8>, u32),
        open_port: OpenPort,
        timers: Timers,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static, Option<mpsc::UnboundedReceiver<Ready>>) {
        let (phases, phase) = watch::channel(Phase::Waiting);
        let (leave, leaving) = mpsc::unbounded_channel();
        let (speaker, unreachable_since) = (membership.speaker(), membership.unreachable_since());
        let name = membership.job().to_owned();
        let job = name.clone();
        let first_rank = Arc::new(OnceLock::new());
        let rank = Arc::clone(&first_rank);
        let work = async move {
            tracing::info!(job, "joined; waiting for the other members");
            let end = take_part(membership, &open_port, timers, (&phases, &rank), leaving).await;
            match &end {
                Ok(()) => tracing::info!(job, "the job is over"),
                Err(JobError::Left { reason, .. }) => {
                    tracing::info!(job, reason, "this host has left the job");
                }
                Err(error) => tracing::warn!(job, %error, "the job is over"),
            }
            // The agent, and its port, end when the last reference to the agent is dropped.
            phases.send_replace(Phase::Over(end.map_err(Arc::new)));
        };
        let (joint, ready) = (processes > 1).then(|| Gatherings::new(processes)).unzip();
        let member = Arc::new(Self {
            job: name,
            token,
            phase,
            leave,
            processes: Mutex::new(vec![Use::Vacant; processes as usize]),
            joint,
            first_rank,
            leaving: AtomicBool::new(false),
            speaker,
            collectives: Collectives::default(),
            unreachable_since,
        });
        (member, work, ready)
    }

    /// Returns a receiver of the present phase and of the following phases.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.clone()
    }

    /// Returns true if the job has ended without failing.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Over(Ok(())))
    }

    /// Waits for the job's outcome for this host, whose agent has already ended. `None` if the outcome
    /// will never be known.
    pub(crate) async fn wait_for_end(&self) -> Option<JobEnd> {
        let mut phases = self.phase.clone();
        let phase = phases.wait_for(|phase| matches!(phase, Phase::Over(_))).await.ok()?;
        match &*phase {
            Phase::Over(end) => Some(end.clone()),
            Phase::Waiting | Phase::Running(_) => None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Over(_))
    }

    /// Returns the situation of the running worker; `None` if it does not run.
    pub(crate) async fn situation(&self) -> Option<Situation> {
        self.agent().ok()?.situation().await.ok()
    }

    /// Returns the time for which the controller has been unreachable; `None` if it is reachable.
    pub(crate) fn unreachable_for(&self) -> Option<Duration> {
        self.unreachable_since.borrow().map(|since| since.elapsed())
    }

    /// Adds the controller's information about the other members to an error of an all-reduce. If the
    /// error is a wrong sum, reports this member's contribution to the controller, which compares it with the other
    /// members' contributions and fails the job.
    pub(crate) async fn explain(&self, error: AgentError) -> AgentError {
        let error = match error {
            AgentError::Deadline { limit, wait, error, .. } => {
                let (absent, setback) = self.speaker.in_the_way().await;
                return AgentError::Deadline { limit, wait, error, absent, setback };
            }
            AgentError::Collective(error) => error,
            error => return error,
        };
        let CollectiveError::WrongSum { tensor, operation, .. } = &error else { return error.into() };
        let processes = self.situation().await.map(|situation| situation.members.processes.clone());
        let given = v1::GivenOperation {
            first_seq: operation.0,
            tensor: tensor.name.clone(),
            elements: tensor.len as u64,
            element_type: format!(
                "{}{}",
                tensor.element_type,
                described(&tensor.collective, &processes.unwrap_or_default())
            ),
        };
        match self.speaker.report_wrong_sum(&error.to_string(), given).await {
            Ok(verdict) if !verdict.is_empty() => {
                AgentError::Disputed { tensor: tensor.name.clone(), verdict }
            }
            Ok(_) => error.into(),
            Err(problem) => {
                tracing::warn!(job = self.job, %problem, "cannot report a fault");
                AgentError::NotCompared { error: Box::new(error), problem }
            }
        }
    }

    /// If the member is about to leave the job, waits until it has left.
    pub(crate) async fn settle(&self) {
        if self.leaving.load(Ordering::Acquire) {
            // An error means that the member has left.
            let _ = self.phase.clone().wait_for(|phase| matches!(phase, Phase::Over(_))).await;
        }
    }

    /// Returns the running agent, or the reason why it does not run.
    pub(crate) fn agent(&self) -> Result<Arc<WorkerAgent>, Status> {
        match &*self.phase.borrow() {
            Phase::Running(agent) => Ok(Arc::clone(agent)),
            Phase::Waiting => Err(Status::failed_precondition("the job has not started yet")),
            Phase::Over(Ok(())) => Err(Status::aborted(format!("job {:?} has ended", self.job))),
            Phase::Over(Err(error)) => Err(Status::aborted(error.to_string())),
        }
    }

    /// Attaches a process to the member. Only one process of each number can be attached at a time.
    pub(crate) fn attach(&self, token: &[u8], process: HostProcess) -> Result<(), Status> {
        if !bool::from(self.token.as_slice().ct_eq(token)) {
            return Err(Status::permission_denied("wrong token for this job"));
        }
        let mut processes = self.processes.lock();
        let (job, of) = (&self.job, processes.len());
        if process.of as usize != of {
            return Err(Status::invalid_argument(format!(
                "this host takes part in job {job:?} with {of} processes, and this process says that there are {}: \
                 start an equal number again, or end the processes that run",
                process.of
            )));
        }
        match processes.get_mut(process.number as usize) {
            Some(Use::Attached) if of == 1 => Err(Status::already_exists(
                "another process of this host has joined the job: end it first, or give each process its own number",
            )),
            Some(Use::Attached) => Err(Status::already_exists(format!(
                "another process of this host has joined the job as process {} of {of}: give each its own number",
                process.number
            ))),
            Some(present) => {
                *present = Use::Attached;
                self.joint.iter().for_each(|joint| joint.replace(process.number));
                Ok(())
            }
            None => Err(Status::invalid_argument(format!(
                "process {} of {of}: numbers of processes begin with 0",
                process.number
            ))),
        }
    }

    /// Detaches the process from the member.
    pub(crate) fn detach(&self, process: u32) {
        self.end_use(process, Use::Vacant);
    }

    /// Ends a process's use, and returns true if all processes have finished.
    fn end_use(&self, process: u32, end: Use) -> bool {
        let mut processes = self.processes.lock();
        if let Some(present) = processes.get_mut(process as usize) {
            *present = end;
        }
        processes.iter().all(|one| *one == Use::Finished)
    }

    /// Returns the names of these processes of the host, for users.
    pub(crate) fn names_of(&self, processes: &[u32]) -> String {
        let words =
            if self.first_rank.get().is_some() { ["rank", "ranks"] } else { ["process", "processes"] };
        let first = self.first_rank.get().copied().unwrap_or_default();
        let numbers: Vec<_> = processes.iter().map(|process| (first + process).to_string()).collect();
        format!("{} {}", words[usize::from(numbers.len() != 1)], numbers.join(", "))
    }

    /// Reports a fault of this host's processes to the controller, which fails the job.
    pub(crate) fn report_fault(self: &Arc<Self>, problem: String) {
        let member = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = member.speaker.report_fault(&problem).await {
                tracing::warn!(job = member.job, %error, problem, "cannot report a fault, and leaves the job");
                member.leave(&problem);
            }
        });
    }

    /// Leaves the job because a process has gone without closing its session.
    pub(crate) fn abandon(&self, process: u32) {
        match &self.joint {
            None => self.leave("its training process is gone"),
            Some(_) => match self.first_rank.get() {
                Some(first) => self.leave(&format!("the process of rank {} is gone", first + process)),
                None => self.leave(&format!("process {process} of this host is gone")),
            },
        }
    }

    /// Leaves the job. The job continues without this host, or fails if it is rigid.
    pub(crate) fn leave(&self, reason: &str) {
        self.leaving.store(true, Ordering::Release);
        self.leave_after(Duration::ZERO, reason.to_owned().into());
    }

    /// Ends the use of a process at the end of its training. The host leaves the job with the last one.
    pub(crate) fn finish(&self, process: u32) {
        if !self.end_use(process, Use::Finished) {
            return;
        }
        self.leaving.store(true, Ordering::Release);
        self.leave_after(Duration::ZERO, Parting::at_end());
    }

    /// Leaves a job that another member is about to end, unless the job ends within `END_PATIENCE`.
    pub(crate) fn leave_unless_ended(&self, reason: &str) {
        self.leave_after(END_PATIENCE, reason.to_owned().into());
    }

    fn leave_after(&self, patience: Duration, parting: Parting) {
        // If the receiver is gone, the job is over.
        let _ = self.leave.send(Leave { parting, patience });
    }
}

/// Waits until the host must leave, and returns the terms of its departure.
/// The caller drops the future when the job is over.
async fn time_to_leave(mut leaving: mpsc::UnboundedReceiver<Leave>) -> Parting {
    // If no sender is left, no order to leave can arrive. The host then leaves immediately.
    let Some(mut leave) = leaving.recv().await else { return "its agent has forgotten it".to_owned().into() };
    // A later order replaces the earlier one, so that an agent that shuts down does not wait.
    while let Ok(Some(next)) = timeout(leave.patience, leaving.recv()).await {
        leave = next;
    }
    leave.parting
}

async fn take_part(
    mut membership: Membership,
    open_port: &OpenPort,
    timers: Timers,
    (phases, first_rank): (&watch::Sender<Phase>, &OnceLock<u32>),
    leaving: mpsc::UnboundedReceiver<Leave>,
) -> Result<(), JobError> {
    let job = membership.job().to_owned();
    let mut leave = std::pin::pin!(time_to_leave(leaving));
    let config = tokio::select! {
        started = part::wait_for_start(&mut membership, &job) => started?,
        parting = &mut leave => {
            // An error may mean that the job is already over, so that the host need not leave it.
            let _ = membership.part(&parting).await;
            return Err(JobError::Left { job, reason: parting.reason });
        }
    };
    let start = |ports| WorkerAgent::start_threads(&config, timers, ports);
    let agent = match part::open_ports(open_port, &config).and_then(start) {
        Ok(agent) => Arc::new(agent),
        Err(error) => return Err(part::give_up(membership, error).await),
    };
    let (generation, workers) = (config.generation, config.ranks.len());
    if let Role::Worker { rank, .. } = &config.role {
        first_rank.get_or_init(|| config.processes.ranks_of(*rank).start);
        tracing::info!(job, %rank, generation, workers, "the job has started");
    }
    phases.send_replace(Phase::Running(Arc::clone(&agent)));
    let agent = JobAgent::Worker(agent);
    let end = part::see_through(membership, &agent, generation, leave).await;
    agent.end(&part::reason(&end));
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn a_job_that_does_not_end_is_left_and_a_shutdown_does_not_wait_for_its_end() {
        let (orders, leaving) = mpsc::unbounded_channel();
        let order = |reason: &str, patience| {
            orders
                .send(Leave { parting: reason.to_owned().into(), patience })
                .unwrap_or_else(|_| panic!("closed"));
        };
        order("done", LONG);
        let mut time = std::pin::pin!(time_to_leave(leaving));
        assert!(timeout(Duration::ZERO, &mut time).await.is_err(), "its end is waited for");
        order("done again", LONG);
        order("shutdown", Duration::ZERO);
        assert_eq!(time.await.reason, "shutdown");

        let (orders, leaving) = mpsc::unbounded_channel();
        let order = Leave { parting: "done".to_owned().into(), patience: Duration::from_millis(1) };
        orders.send(order).unwrap_or_else(|_| panic!("closed"));
        assert_eq!(time_to_leave(leaving).await.reason, "done");
    }
}
