//! Agents of hosts with processes. The hosts have the names w0, w1 and so on.

use std::path::PathBuf;

use tempfile::TempDir;
use tonic::Code;
use tributary_client::{Agent, ClientError, Job, JoinOptions, Operation, Run};
use tributary_host_agent::{AgentConfig, AgentDaemon, Limits, OpenPort, RunningAgent};
use tributary_protocol::Timers;
use tributary_transport::Remote;

use crate::directory::TOKEN;

pub(crate) fn start_agent(
    controller: Remote,
    folder: &TempDir,
    rank: usize,
    open_port: OpenPort,
) -> RunningAgent {
    start_limited_agent(controller, folder, rank, open_port, Limits::of_this_machine())
}

/// Starts an agent with these limits.
pub(crate) fn start_limited_agent(
    controller: Remote,
    folder: &TempDir,
    rank: usize,
    open_port: OpenPort,
    limits: Limits,
) -> RunningAgent {
    let config = AgentConfig {
        host: format!("w{rank}"),
        controller,
        open_port,
        socket: socket(folder, rank),
        timers: Timers::default(),
        limits,
    };
    AgentDaemon::start(config).unwrap()
}

pub(crate) fn socket(folder: &TempDir, rank: usize) -> PathBuf {
    folder.path().join(format!("w{rank}.sock"))
}

/// Joins a process through the agent with this socket.
pub(crate) async fn join(socket: PathBuf, options: JoinOptions) -> Result<Job, ClientError> {
    Agent::connect(socket).await?.join_with("star", TOKEN.into(), options).await
}

/// Reduces these values in place.
pub(crate) async fn reduce(
    job: &mut Job,
    values: &mut [f32],
    operation: Operation<'_>,
) -> Result<Vec<Run>, ClientError> {
    let mut segment = job.segment(size_of_val(values)).await?;
    segment.elements_mut::<f32>()?.copy_from_slice(values);
    let reduced = job.all_reduce(&mut segment, operation).await;
    // After a broken connection, the agent may still write to the segment.
    if !segment.is_in_use() {
        values.copy_from_slice(segment.elements::<f32>()?);
    }
    // If the job is over, the agent refuses the release.
    let _ = job.release(segment).await;
    reduced
}

pub(crate) fn code(error: &ClientError) -> Code {
    match error {
        ClientError::Refused { code, .. } => *code,
        ClientError::AgentLost { .. } => Code::Unavailable,
        other => panic!("{other}"),
    }
}
