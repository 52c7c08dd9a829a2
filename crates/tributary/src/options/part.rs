//! Options of commands that act as a training process of a job.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tributary_cli::options::DEFAULT_SOCKET;
use tributary_client::{Agent, Job, JoinOptions};

use crate::options::remote::read_token;

/// Which job, and through which agent.
#[derive(Debug, Clone, Args)]
pub struct PartArgs {
    /// The agent's Unix socket
    #[arg(long, value_name = "PATH", env = "TRIBUTARY_SOCKET", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,

    /// The job's name
    #[arg(long, value_name = "NAME", env = "TRIBUTARY_JOB")]
    job: String,

    /// File with the job's token, as `tributary jobs create` wrote it
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_TOKEN_FILE")]
    token_file: PathBuf,

    /// Number of this process among the processes of its host that take part, from 0
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_PROCESS", default_value_t = 0)]
    process: u32,

    /// Processes of this host that take part; the host sends their sum
    #[arg(long, value_name = "PROCESSES", env = "TRIBUTARY_PROCESSES", default_value_t = 1)]
    processes: u32,
}

impl PartArgs {
    /// Joins the job; returns when it runs.
    ///
    /// # Errors
    /// The file contains no token, the agent does not answer, the job does not exist, or this host is not
    /// one of its members.
    pub async fn take(&self, options: JoinOptions) -> Result<Job> {
        let token = read_token(&self.token_file)?;
        let options = options.process(self.process, self.processes);
        Ok(Agent::connect(&self.socket).await?.join_with(&self.job, token, options).await?)
    }
}
