//! Options with which a process takes part in a job.

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
    pub(crate) deadline: Option<Duration>,
    pub(crate) observer: Observer,
}

impl JoinOptions {
    /// Makes the process elastic: it copes with others that join later, and may itself join a running job.
    /// Its all-reduces may end with [`ClientError::Regroup`](crate::ClientError::Regroup).
    #[must_use]
    pub fn elastic(mut self) -> Self {
        self.elastic = true;
        self
    }

    /// Lets the process begin a new run of a job whose last run is over, unless `tributary jobs end` has
    /// ended the job: a launcher has restarted all processes of a training. While processes of the last run are still
    /// in the job, joining waits for their end, for up to 20 s.
    #[must_use]
    pub fn new_run(mut self) -> Self {
        self.new_run = true;
        self
    }

    /// Sets the time after which each all-reduce fails, unless its [operation](crate::Operation) sets its
    /// own deadline. While the agent is silent, it holds for all other calls of the job, too.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets a callback for what the process waits for: it is called when nothing has moved for two seconds,
    /// and every five seconds from then on, while the process waits for its job's start or for all-reduces; and
    /// likewise while it waits for an agent that says nothing at all. It runs in the runtime in which the process
    /// joins, and must not block.
    #[must_use]
    pub fn on_waiting(mut self, tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(tell);
        self
    }
}

impl fmt::Debug for JoinOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { elastic, new_run, deadline, .. } = self;
        let mut shown = f.debug_struct("JoinOptions");
        shown.field("elastic", elastic).field("new_run", new_run).field("deadline", deadline);
        shown.finish_non_exhaustive()
    }
}

/// A wait of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// A text that describes the reason for the wait.
    pub what: String,
    /// Time for which it has waited.
    pub time: Duration,
    /// True if the process waits for its own agent, which is silent; otherwise the agent
    /// reports the reason itself.
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
    /// Calls `tell`, in a runtime's thread: it must not block.
    pub fn new(tell: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Reports the agent's own reason for the wait.
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
