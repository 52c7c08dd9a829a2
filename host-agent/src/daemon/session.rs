//! The sessions of the training processes that the agent serves.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tonic::Status;

use super::account::{Account, Call};
use super::reducing::Reducing;
use super::segments::Segments;
use super::training::Training;

/// The id that calls use to name a session: 128 random bits.
pub(crate) type SessionId = [u8; 16];

/// A process's session: its job or training, and its shared memory.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) account: Arc<Account>,
    pub(crate) segments: Segments,
    part: Participation,
}

/// The work of a session: a job or a training.
#[derive(Debug)]
pub(crate) enum Participation {
    /// The all-reduces of a job.
    Job(Reducing),
    /// The steps of a training with parameter servers.
    Training(Training),
}

impl Session {
    /// Creates a session that takes its resources from the account.
    pub(crate) fn new(part: Participation, account: Arc<Account>) -> Self {
        Self { segments: Segments::new(Arc::clone(&account)), account, part }
    }

    /// Returns the session's job, or an error if the session belongs to a training.
    pub(crate) fn job(&self) -> Result<&Reducing, Status> {
        match &self.part {
            Participation::Job(reducing) => Ok(reducing),
            Participation::Training(_) => {
                Err(Status::failed_precondition("the session is that of a training: open a job to reduce"))
            }
        }
    }

    /// Returns the session's training, or an error if the session belongs to a job.
    pub(crate) fn training(&self) -> Result<&Training, Status> {
        match &self.part {
            Participation::Training(training) => Ok(training),
            Participation::Job(_) => {
                Err(Status::failed_precondition("the session is that of a job: open a training to push"))
            }
        }
    }

    /// Leaves the job or the training, because the process has gone without closing the session.
    fn abandon(&self) {
        match &self.part {
            Participation::Job(reducing) => reducing.member.abandon(reducing.process),
            Participation::Training(training) => training.leave(),
        }
    }
}

/// All sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<OpenSessions>,
    /// Notified when a process has gone.
    gone: Arc<Notify>,
}

#[derive(Debug, Default)]
struct OpenSessions {
    open: HashMap<SessionId, Arc<Session>>,
    /// True once the agent is shutting down.
    closed: bool,
}

impl Sessions {
    pub(crate) fn new(gone: Arc<Notify>) -> Self {
        Self { state: Mutex::default(), gone }
    }

    pub(crate) fn open(self: &Arc<Self>, session: Session) -> OpenSession {
        let id: SessionId = rand::random();
        self.state.lock().open.insert(id, Arc::new(session));
        OpenSession { sessions: Arc::clone(self), id }
    }

    /// Returns the session for a new call, and the permit of the call.
    pub(crate) fn call(&self, id: &[u8]) -> Result<(Arc<Session>, Call), Status> {
        let session = self.find(id)?;
        let call = session.account.begin_call()?;
        Ok((session, call))
    }

    pub(crate) fn find(&self, id: &[u8]) -> Result<Arc<Session>, Status> {
        let state = self.state.lock();
        let session = SessionId::try_from(id).ok().and_then(|id| state.open.get(&id).cloned());
        session.ok_or_else(|| if state.closed { shutting_down() } else { no_session() })
    }

    /// Closes a session whose process has finished with its job. The host stays a member.
    ///
    /// If an abandoned all-reduce has no result yet, the host leaves the job instead. Its contribution is still in the
    /// network, so the next process's first all-reduce could be added to it or be delayed behind it.
    ///
    /// If `at_end` is true, the training has ended, and the host leaves the job, too.
    pub(crate) async fn close_job(&self, id: &[u8], at_end: bool) -> Result<(), Status> {
        let has_given_up = self.find(id)?.job()?.has_given_up().await;
        let mut state = self.state.lock();
        let id = SessionId::try_from(id).map_err(|_| no_session())?;
        let reducing = state.open.get(&id).ok_or_else(no_session)?.job()?;
        if !reducing.is_idle() {
            return Err(Status::failed_precondition("all-reduces are under way: wait for their ends"));
        }
        if has_given_up {
            reducing.member.leave(&format!(
                "{} has ended with an all-reduce given up",
                reducing.member.names_of(&[reducing.process])
            ));
            state.open.remove(&id);
            return Err(Status::failed_precondition(
                "an all-reduce was given up, and the others may still finish it with what this process gave: its host \
                 leaves the job, so that no other process goes on there",
            ));
        }
        if at_end {
            reducing.member.finish(reducing.process);
        } else {
            reducing.member.detach(reducing.process);
        }
        state.open.remove(&id);
        Ok(())
    }

    /// Ends all trainings and refuses new calls. [`Jobs`](super::jobs::Jobs) leaves the jobs.
    pub(crate) fn shut_down(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.open.values().filter_map(|session| session.training().ok()).for_each(Training::leave);
    }
}

/// A session that stays open while its process reads the stream of events. Dropping it leaves the job
/// or the training, unless the process has closed the session.
pub(crate) struct OpenSession {
    sessions: Arc<Sessions>,
    pub(crate) id: SessionId,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let session = self.sessions.state.lock().open.remove(&self.id);
        if let Some(session) = session {
            session.abandon();
            self.sessions.gone.notify_one();
        }
    }
}

pub(crate) fn shutting_down() -> Status {
    Status::unavailable("the agent is shutting down")
}

fn no_session() -> Status {
    Status::unauthenticated(
        "this host's agent does not know this process: it has been restarted since, or the process has left its job; \
         start the process again",
    )
}
