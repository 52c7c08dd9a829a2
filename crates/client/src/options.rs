//! Options with which a process joins a job.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tributary_api::agent::v1;

type Tell = Arc<dyn Fn(&Waiting) + Send + Sync>;

/// Options for [`Agent::join_with`](crate::Agent::join_with).
#[derive(Clone, Default)]
pub struct JoinOptions {
    pub(crate) elastic: bool,
    pub(crate) new_run: bool,
    /// The process's number on its host, and the number of the host's processes in the job; 0 means one.
    pub(crate) process: (u32, u32),
    pub(crate) deadline: Option<Duration>,
    pub(crate) observer: Observer,
}

impl JoinOptions {
    /// Makes the process elastic. It then accepts processes that join later, and may itself join a
    /// running job. Its all-reduces may end with [`ClientError::Regroup`](crate::ClientError::Regroup).
    #[must_use]
    pub fn elastic(mut self) -> Self {
        self.elastic = true;
        self
    }

    /// Lets the process begin a new run of a job whose last run is over, unless `tributary jobs end` has
    /// ended the job. A launcher that restarts all processes of a training uses this option. If processes of the last
    /// run are still in the job, the join waits up to 20 s for their end.
    #[must_use]
    pub fn new_run(mut self) -> Self {
        self.new_run = true;
        self
    }

    /// Makes this process one of several processes of its host that take part in the job.
    /// They have the numbers from 0 to `processes` − 1, and must start the same operations in the same order. Each has a
    /// rank of its own, and the host's agent contributes their sum.
    #[must_use]
    pub fn process(mut self, number: u32, processes: u32) -> Self {
        self.process = (number, processes);
        self
    }

    /// Sets the deadline of each all-reduce whose [operation](crate::Operation) has no deadline. It also
    /// limits the wait of all other calls of the job for a silent agent.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets a callback that reports waits. It is called after two seconds without progress, and then
    /// every five seconds, while the process waits for its job's start, for all-reduces, or for a silent agent. It runs
    /// in the runtime in which the process joins the job, and must not block.
    #[must_use]
    pub fn on_waiting(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(tell);
        self
    }
}

impl fmt::Debug for JoinOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elastic, new_run, process, deadline, .. } = self;
        let mut shown = f.debug_struct("JoinOptions");
        shown.field("elastic", elastic).field("new_run", new_run).field("process", process);
        shown.field("deadline", deadline);
        shown.finish_non_exhaustive()
    }
}

/// A wait of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// A text that describes the cause of the wait.
    pub what: String,
    /// The duration of the wait.
    pub time: Duration,
    /// True if the process waits for its own agent, which is silent. False if the agent has reported the
    /// cause of the wait.
    pub agent_is_silent: bool,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for {} s: {}", self.time.as_secs(), self.what)
    }
}

/// The callback for waits, if there is one.
#[derive(Clone, Default)]
pub struct Observer(Option<Tell>);

impl Observer {
    /// Creates an observer that calls `tell` in a thread of the runtime. `tell` must not block.
    pub fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Reports a wait whose cause the agent has sent.
    pub(crate) fn tell(&self, v1::Waiting { what, seconds }: v1::Waiting) {
        self.call(&Waiting { what, time: Duration::from_secs(seconds), agent_is_silent: false });
    }

    /// Reports that the agent behind `socket` has been silent for `time`.
    pub(crate) fn tell_of_silence(&self, socket: &Path, time: Duration) {
        let what = format!(
            "the agent at {}, which has said nothing for {} s (is it stopped, or out of file descriptors? look at its log)",
            socket.display(),
            time.as_secs()
        );
        self.call(&Waiting { what, time, agent_is_silent: true });
    }

    fn call(&self, waiting: &Waiting) {
        if let Some(tell) = &self.0 {
            tell(waiting);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observer").field(&self.0.is_some()).finish()
    }
}
