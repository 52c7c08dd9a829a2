//! The aggregation server's part in one job.

use std::future::Future;
use std::sync::Arc;

use tributary_api::JobConfig;
use tributary_link::FramePort;
use tributary_transport::Remote;

use super::{JobAgent, OpenPort, give_up, open_ports, reason, see_through, wait_for_start};
use crate::error::{AgentError, JobError};
use crate::membership::{JobMember, Membership};
use crate::server::ServerAgent;

/// Serves one job until the job is over, until another host serves it, or until `leave` yields a
/// reason to leave earlier. `start` starts the server on one port for each stripe. It may also keep a reference to the
/// agent, which keeps the ports open.
///
/// # Errors
/// [`JobError`] if the host could not join the job, or if the job failed.
pub async fn serve_job(
    controller: &Remote,
    member: JobMember,
    open_port: &OpenPort,
    leave: impl Future<Output = String>,
    start: impl FnOnce(&JobConfig, Vec<Box<dyn FramePort>>) -> Result<Arc<ServerAgent>, AgentError>,
) -> Result<(), JobError> {
    let job = member.job.clone();
    let mut leave = std::pin::pin!(leave);
    let joining = async {
        let mut membership = Membership::join(controller, member).await?;
        tracing::info!(job, "joined as the server; waiting for the other members");
        let config = wait_for_start(&mut membership, &job).await?;
        Ok::<_, JobError>((membership, config))
    };
    let (membership, config) = tokio::select! {
        joined = joining => joined?,
        // The return breaks the connection, so the host leaves the job.
        _ = &mut leave => return Ok(()),
    };
    let server = match open_ports(open_port, &config).and_then(|ports| start(&config, ports)) {
        Ok(server) => JobAgent::Server(server),
        Err(error) => return Err(give_up(membership, error).await),
    };
    let (generation, workers) = (config.generation, config.ranks.len());
    tracing::info!(job, generation, workers, "the job has started");
    let end = see_through(membership, &server, generation, leave).await;
    server.end(&reason(&end));
    match end {
        Err(JobError::Left { .. }) => Ok(()),
        end => end,
    }
}
