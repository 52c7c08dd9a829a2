//! Duties of a daemon for its controller.

use tributary_api::v1;

use crate::part::Servers;

/// The state of a host's jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// Jobs of its training processes.
    pub(crate) jobs: Vec<v1::JobProgress>,
    /// Jobs that it serves.
    pub(crate) served: Vec<v1::ServedJob>,
}

/// Duties of a daemon for its controller, and its reports to it.
#[tonic::async_trait]
pub(crate) trait Duties: Send + Sync + 'static {
    /// The state of this host's jobs.
    async fn progress(&self) -> Progress;

    /// Serves a job on this host.
    fn serve(&self, job: &str, token: &[u8]);
}

#[tonic::async_trait]
impl Duties for Servers {
    async fn progress(&self) -> Progress {
        Progress { jobs: Vec::new(), served: self.report().await }
    }

    fn serve(&self, job: &str, token: &[u8]) {
        // The outcome is in the log.
        drop(Self::serve(self, job, token));
    }
}
