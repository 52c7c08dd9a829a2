//! The reports and orders that a daemon exchanges with its controller.

use tributary_api::v1;

use crate::part::Servers;

/// The state of a host's jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Progress {
    /// The jobs of the host's training processes.
    pub(crate) jobs: Vec<v1::JobProgress>,
    /// The jobs that the host serves as aggregation server.
    pub(crate) served: Vec<v1::ServedJob>,
}

/// The part of a daemon that reports to the controller and carries out its orders.
#[tonic::async_trait]
pub(crate) trait Duties: Send + Sync + 'static {
    /// Returns the state of this host's jobs.
    async fn progress(&self) -> Progress;

    /// Starts to serve a job on this host.
    fn serve(&self, job: &str, token: &[u8]);
}

#[tonic::async_trait]
impl Duties for Servers {
    async fn progress(&self) -> Progress {
        Progress { jobs: Vec::new(), served: self.report().await }
    }

    fn serve(&self, job: &str, token: &[u8]) {
        // The server task logs the outcome.
        drop(Self::serve(self, job, token));
    }
}
