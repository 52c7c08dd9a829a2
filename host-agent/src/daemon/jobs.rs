//! The jobs of which this host is a member.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tributary_protocol::Timers;
use tributary_transport::Remote;

use super::arrivals::{Arrival, Arrivals};
use super::budget::{Budget, LimitError, Permit, Resource, User};
use super::joint;
use super::member::{HostProcess, Member};
use super::session::shutting_down;
use crate::error::JoinError;
use crate::membership::{JobMember, Membership, Speaker};
use crate::part::OpenPort;
use crate::worker::WorkerAgent;

/// The memory that an idle job takes from the agent, in bytes. Most of it is for incoming frames.
const JOB_BYTES: u64 = 8 << 20;
/// A job's file descriptors: its connection to the controller, its two sockets, the descriptors with
/// which its thread waits, and its process.
const JOB_DESCRIPTORS: u64 = 7;

/// All jobs that the agent takes part in.
pub(crate) struct Jobs {
    budget: Arc<Budget>,
    pub(crate) host: String,
    pub(crate) controller: Remote,
    pub(crate) open_port: OpenPort,
    pub(crate) timers: Timers,
    state: Mutex<JoinedJobs>,
    arrivals: Arc<Arrivals>,
    /// True once the agent has left all jobs.
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct JoinedJobs {
    /// Members by the job's name.
    members: BTreeMap<String, Arc<Member>>,
    /// For each job, the lock of the process that attaches or joins. The other processes of the job wait.
    joining: BTreeMap<String, Arc<AsyncMutex<()>>>,
    work: JoinSet<()>,
    /// True if the agent refuses to join further jobs.
    closed: bool,
}

impl Jobs {
    pub(crate) fn new(
        host: String,
        controller: Remote,
        open_port: OpenPort,
        timers: Timers,
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            budget,
            host,
            controller,
            open_port,
            timers,
            state: Mutex::default(),
            arrivals: Arc::default(),
            stopped: watch::Sender::new(false),
        }
    }

    /// Adds a process to those that wait for all processes of the job on this host; `None` if it need not
    /// wait, because the host is a member already or has only this process.
    pub(super) async fn arrive(&self, joining: &JobMember, number: u32) -> Result<Option<Arrival>, Status> {
        let present = self.state.lock().members.get(&joining.job).cloned();
        if let Some(member) = present {
            member.settle().await;
            if !member.is_over() {
                return Ok(None);
            }
        }
        let process = HostProcess { number, of: joining.processes };
        match process.of {
            1 => Ok(None),
            _ => self.arrivals.add(&joining.job, process).map(Some),
        }
    }

    /// Attaches process `number` of this user to the host's membership in a job. Joins the job as `joining`
    /// if the host is not a member yet.
    pub(crate) async fn attach(
        &self,
        joining: JobMember,
        number: u32,
        user: User,
    ) -> Result<Arc<Member>, Status> {
        let turn = {
            let mut state = self.state.lock();
            state.joining.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(state.joining.entry(joining.job.clone()).or_default())
        };
        let _turn = turn.lock_owned().await;
        let JobMember { job, token, processes, .. } = &joining;
        let process = HostProcess { number, of: *processes };
        let present = self.state.lock().members.get(job).cloned();
        if let Some(member) = present {
            // A process may connect again immediately after its predecessor has died.
            member.settle().await;
            if !member.is_over() {
                member.attach(token, process)?;
                if !joining.new_run || joining.elastic || !has_lost_others(&member).await {
                    return Ok(member);
                }
                // In this run, other hosts have left. Their restarted processes wait for the end of this run.
                member.leave("its restarted process begins a new run");
                member.settle().await;
            }
        }
        let held = self.take(user)?;
        let membership =
            Membership::join(&self.controller, joining.clone()).await.map_err(|e| join_status(&e))?;
        self.admit(job, (token, process), membership, held)
    }

    /// Fails if a job is over. `joining` shows how a process wants to join.
    ///
    /// # Errors
    /// FAILED_PRECONDITION with the reason, unless the process may begin a new run of the job.
    pub(super) async fn check_alive(&self, joining: &JobMember) -> Result<(), Status> {
        if joining.new_run {
            return Ok(());
        }
        let Ok(speaker) = Speaker::connect(&self.controller, joining.clone()).await else { return Ok(()) };
        match speaker.over().await {
            None => Ok(()),
            Some(how) => {
                let job = &joining.job;
                Err(Status::failed_precondition(format!(
                    "job {job:?} is over: {how}; create a job for another run"
                )))
            }
        }
    }

    /// Takes the resources for one more job.
    fn take(&self, user: User) -> Result<[Permit; 3], LimitError> {
        let take = |resource, amount| self.budget.take(user, resource, amount);
        Ok([
            take(Resource::Jobs, 1)?,
            take(Resource::Memory, JOB_BYTES)?,
            take(Resource::Descriptors, JOB_DESCRIPTORS)?,
        ])
    }

    fn admit(
        &self,
        job: &str,
        (token, process): (&[u8], HostProcess),
        membership: Membership,
        held: [Permit; 3],
    ) -> Result<Arc<Member>, Status> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(shutting_down());
        }
        // Removes finished tasks.
        while state.work.try_join_next().is_some() {}
        state.members.retain(|_, member| !member.is_over());
        let terms = (token.to_vec(), process.of);
        let (member, work, ready) = Member::new(membership, terms, Arc::clone(&self.open_port), self.timers);
        member.attach(token, process)?;
        if let Some((joint, ready)) = member.joint.clone().zip(ready) {
            state.work.spawn(joint::run(joint, Arc::clone(&member), ready));
        }
        state.work.spawn(async move {
            work.await;
            drop(held);
        });
        state.members.insert(job.to_owned(), Arc::clone(&member));
        Ok(member)
    }

    /// Returns the members that have started, with their agents, ordered by the job's name.
    pub(crate) fn running(&self) -> Vec<(Arc<Member>, Arc<WorkerAgent>)> {
        let running = |member: &Arc<Member>| Some((Arc::clone(member), member.agent().ok()?));
        self.state.lock().members.values().filter_map(running).collect()
    }

    /// Leaves all jobs and waits until the host has left them.
    pub(crate) async fn leave_all(&self, reason: &str) {
        let work = {
            let mut state = self.state.lock();
            state.closed = true;
            state.members.values().for_each(|member| member.leave(reason));
            std::mem::take(&mut state.work)
        };
        work.join_all().await;
        self.stopped.send_replace(true);
    }

    /// Waits until the agent has left all jobs permanently.
    pub(crate) async fn stopped(&self) {
        // An error means that the sender is dropped, so the value cannot change any more.
        let _ = self.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }
}

/// Returns true if other members have left the running job.
async fn has_lost_others(member: &Member) -> bool {
    member.situation().await.is_some_and(|situation| !situation.members.lost.is_empty())
}

/// Converts an error of a join to a status. A refusal by the controller keeps its code.
fn join_status(error: &JoinError) -> Status {
    let code = match error {
        JoinError::Refused { code, .. } => *code,
        JoinError::Connect(_) => Code::Unavailable,
        JoinError::Over => Code::Aborted,
        JoinError::BadConfig(_) | JoinError::UnknownEvent => Code::Internal,
    };
    Status::new(code, error.to_string())
}
