//! One group's reduction, from the creation of its job to its end.

use std::future;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use futures_util::stream::{FuturesOrdered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tributary_api::{JobConfig, v1};
use tributary_host_agent::{JobMember, ServerAgent, Servers, serve_job};
use tributary_protocol::{Collective, ElementType, Reduced, Sums, Tensor};
use tributary_ps::client::operation_name;
use tributary_ps::server::{GroupEvent, GroupEvents, GroupRequest, Sum};

use crate::daemons::member::Member;
use crate::options::remote::{connect, refused};

/// A reduction that the parameter server has requested.
pub(super) struct Wanted {
    /// The name of the reduction's fabric job.
    pub(super) name: String,
    pub(super) request: GroupRequest,
    pub(super) events: GroupEvents,
    pub(super) member: Arc<Member>,
    /// The servers of this host. They list this reduction's agent for metrics, and do not control its job.
    pub(super) servers: Servers,
}

impl Wanted {
    /// Runs the reduction: creates its job, and reads the sums of the expected rounds. Ends the job when no
    /// more rounds can be expected, or after an error.
    pub(super) async fn run(self, expected: mpsc::UnboundedReceiver<u64>) {
        let (job, workers) = (&self.name, self.request.hosts.join(", "));
        tracing::info!(job, workers, "the fabric will aggregate a group's gradients");
        let _reserved = self.servers.reserve(job);
        let token = match self.create().await {
            Ok(token) => token,
            Err(error) => return self.fail(&error),
        };
        (self.events)(GroupEvent::Opened { job: job.clone(), token: token.clone() });
        let (started, agent) = oneshot::channel();
        let mut serving = pin!(self.serve(token.clone(), started));
        let over = tokio::select! {
            served = &mut serving => served.and_then(|()| bail!("another client has ended job {job:?}")),
            read = self.read(agent, expected) => read,
        };
        if let Err(error) = over {
            self.fail(&error);
        }
        // The job ends while this host is still a member. If the host left first, the job would fail instead
        // of ending.
        if let Err(error) = self.end(token).await {
            tracing::warn!(job, error = format!("{error:#}"), "cannot end a group's job");
        }
    }

    fn fail(&self, error: &anyhow::Error) {
        (self.events)(GroupEvent::Failed { reason: format!("{error:#}") });
    }

    async fn create(&self) -> Result<Vec<u8>> {
        let mut client = connect(&self.member.controller).await?;
        let request = v1::CreateJobRequest {
            name: self.name.clone(),
            workers: self.request.hosts.clone(),
            server: self.member.host.clone(),
            gradient_bytes: (self.request.length * size_of::<f32>()) as u64,
            rigid: true,
            server_reads: true,
            join_deadline_milliseconds: 0,
            ..v1::CreateJobRequest::default()
        };
        let created =
            client.create_job(request).await.map_err(refused).context("cannot create a job for a group")?;
        Ok(created.into_inner().token)
    }

    /// Takes part as the job's aggregation server until the job has ended.
    async fn serve(&self, token: Vec<u8>, started: oneshot::Sender<Arc<ServerAgent>>) -> Result<()> {
        let Member { host, controller, open_port, .. } = &*self.member;
        let member = JobMember::server(&self.name, &token, host);
        let start = |config: &JobConfig, ports| {
            let agent = Arc::new(ServerAgent::start_reading(config, ports)?);
            self.servers.add(&config.name, &agent);
            // An error means that the receiver does not need the sums any more.
            let _ = started.send(Arc::clone(&agent));
            Ok(agent)
        };
        Ok(serve_job(controller, member, open_port, future::pending(), start).await?)
    }

    /// Reads the sum of each expected round until no more rounds can be expected.
    async fn read(
        &self,
        agent: oneshot::Receiver<Arc<ServerAgent>>,
        mut expected: mpsc::UnboundedReceiver<u64>,
    ) -> Result<()> {
        let agent = tokio::select! {
            agent = agent => match agent {
                Ok(agent) => agent,
                // `serve` reports why the job has not started, so this future never completes.
                Err(_) => future::pending().await,
            },
            round = expected.recv() => match round {
                None => return Ok(()),
                Some(round) => bail!("round {round} was expected before the reduction was live"),
            },
        };
        (self.events)(GroupEvent::Live);
        let mut awaited = FuturesOrdered::new();
        let mut rounds = 0..;
        loop {
            tokio::select! {
                round = expected.recv() => {
                    let Some(round) = round else { return Ok(()) };
                    ensure!(rounds.next() == Some(round), "round {round} was expected out of turn");
                    let sums = agent.sums(self.tensor(round))?;
                    awaited.push_back(async move { sum(round, sums.await?) });
                }
                Some(sum) = awaited.next() => (self.events)(GroupEvent::Sum(sum?)),
            }
        }
    }

    /// Returns the tensor that a round aggregates, with the name that its contributors use.
    fn tensor(&self, round: u64) -> Tensor {
        Tensor {
            name: operation_name(round),
            element_type: ElementType::F32,
            len: self.request.length,
            collective: Collective::AllReduce,
        }
    }

    async fn end(&self, token: Vec<u8>) -> Result<()> {
        let mut client = connect(&self.member.controller).await?;
        client.end_job(v1::EndJobRequest { job: self.name.clone(), token }).await.map_err(refused)?;
        Ok(())
    }
}

fn sum(round: u64, reduced: Reduced) -> Result<Sum> {
    let Reduced { sums: Sums::F32(values), weight, contributors, .. } = reduced else {
        bail!("the sum of floats has other values than floats");
    };
    Ok(Sum { round, weight, contributors, values })
}
