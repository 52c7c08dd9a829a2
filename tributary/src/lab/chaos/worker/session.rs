//! A process's part in the job, as the agent gives it: the one place here that knows the client's API.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tributary_client::{Agent, Job, Operation, Run, Segment};

use crate::remote::read_token;

/// Which job, and through which agent.
#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// The agent's Unix socket
    #[arg(long, value_name = "PATH", env = "TRIBUTARY_SOCKET")]
    socket: PathBuf,

    /// The job's name
    #[arg(long, value_name = "NAME", env = "TRIBUTARY_JOB")]
    job: String,

    /// File with the job's token
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_TOKEN_FILE")]
    token_file: PathBuf,
}

/// What sums over the members of a job.
pub(super) trait Fabric {
    /// Replaces the values by their sum over the members, all of which ask for the same in the same order.
    ///
    /// # Errors
    /// This process has no part in the job any more.
    async fn sum(&mut self, values: &mut [f32], purpose: Purpose) -> Result<Outcome>;
}

/// What a sum is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A round.
    Round,
    /// All members take over what one of them has, after others have joined.
    Synchronise {
        /// The generation that they have joined with.
        generation: u64,
        /// Whether this is the member whose values all take over.
        leads: bool,
    },
}

/// What came of a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The sum, over whom these say.
    Sum(Vec<Run>),
    /// None: members have joined, and all have to synchronise first.
    #[cfg_attr(not(test), expect(dead_code, reason = "the client's API tells it once members can join"))]
    Regroup(Regroup),
}

/// The members after some have joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Regroup {
    pub(super) generation: u64,
    /// All, ascending.
    pub(super) ranks: Vec<u32>,
    /// Whose state all take over.
    pub(super) leader: u32,
    /// Those that are new.
    pub(super) joined: Vec<u32>,
}

/// A part in a job.
#[derive(Debug)]
pub(super) struct Session {
    job: Job,
    memory: Segment,
}

impl Session {
    /// Takes part with tensors of up to so many elements; returns when the job runs.
    ///
    /// # Errors
    /// No agent, no such job, or no part for this host in it.
    pub(super) async fn open(args: &SessionArgs, elements: usize) -> Result<Self> {
        let token = read_token(&args.token_file)?;
        let mut job = Agent::connect(&args.socket).await?.join(&args.job, token).await?;
        let memory = job.segment(elements * size_of::<f32>()).await?;
        Ok(Self { job, memory })
    }

    /// This member's rank.
    pub(super) fn rank(&self) -> u32 {
        self.job.rank()
    }
}

impl Fabric for Session {
    async fn sum(&mut self, values: &mut [f32], purpose: Purpose) -> Result<Outcome> {
        let (name, weight) = match purpose {
            Purpose::Round => ("round", 1),
            Purpose::Synchronise { leads, .. } => ("state", u32::from(leads)),
        };
        self.memory.elements_mut::<f32>()?[..values.len()].copy_from_slice(values);
        let elements = Some(0..values.len());
        let operation = Operation { name, elements, weight, ..Operation::whole::<f32>() };
        let runs = self.job.all_reduce(&mut self.memory, operation).await?;
        values.copy_from_slice(&self.memory.elements::<f32>()?[..values.len()]);
        Ok(Outcome::Sum(runs))
    }
}
