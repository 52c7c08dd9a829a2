//! The agent's gRPC service.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_server::Agent;
use tributary_api::agent::v1::job_event::Event;

use super::jobs::{Jobs, OpenSession};
use super::member::{Phase, Running};
use super::session::{SessionId, agent_status};

/// Started, and Failed or Ended: no job has more events.
const EVENTS: usize = 2;

pub(crate) struct Service {
    pub(crate) jobs: Arc<Jobs>,
}

#[tonic::async_trait]
impl Agent for Service {
    type OpenJobStream = JobEvents;

    async fn open_job(&self, request: Request<v1::OpenJobRequest>) -> Result<Response<JobEvents>, Status> {
        let owner = owner(&request)?;
        let v1::OpenJobRequest { job, token } = request.into_inner();
        let member = self.jobs.attach(&job, &token).await?;
        let phases = member.phase();
        let session = self.jobs.open(member, owner);
        let (sender, events) = mpsc::channel(EVENTS);
        let (jobs, id) = (Arc::clone(&self.jobs), session.id);
        tokio::spawn(async move {
            tell(phases, id, &jobs.host, &sender).await;
            // The stream stays until the process has done with it: with it the session would go, and why the
            // job is over.
            tokio::select! {
                () = sender.closed() => {}
                () = jobs.stopped() => {}
            }
        });
        Ok(Response::new(JobEvents { events, _session: session }))
    }

    async fn open_segment(
        &self,
        request: Request<v1::OpenSegmentRequest>,
    ) -> Result<Response<v1::OpenSegmentResponse>, Status> {
        let v1::OpenSegmentRequest { session, name, bytes } = request.into_inner();
        let segment = self.jobs.session(&session)?.open_segment(&name, bytes)?;
        Ok(Response::new(v1::OpenSegmentResponse { segment }))
    }

    async fn close_segment(
        &self,
        request: Request<v1::CloseSegmentRequest>,
    ) -> Result<Response<v1::CloseSegmentResponse>, Status> {
        let v1::CloseSegmentRequest { session, segment } = request.into_inner();
        self.jobs.session(&session)?.close_segment(segment)?;
        Ok(Response::new(v1::CloseSegmentResponse {}))
    }

    async fn all_reduce(
        &self,
        request: Request<v1::AllReduceRequest>,
    ) -> Result<Response<v1::AllReduceResponse>, Status> {
        let request = request.into_inner();
        let session = self.jobs.session(&request.session)?;
        session.all_reduce(request).await.map(Response::new)
    }

    async fn close_job(
        &self,
        request: Request<v1::CloseJobRequest>,
    ) -> Result<Response<v1::CloseJobResponse>, Status> {
        self.jobs.close(&request.into_inner().session)?;
        Ok(Response::new(v1::CloseJobResponse {}))
    }

    async fn stats(&self, request: Request<v1::StatsRequest>) -> Result<Response<v1::StatsResponse>, Status> {
        let running = self.jobs.session(&request.into_inner().session)?.member.running()?;
        let stats = tokio::task::spawn_blocking(move || running.agent.stats()).await;
        let stats = stats.map_err(|error| Status::internal(error.to_string()))?;
        let stats = stats.map_err(|error| agent_status(&error))?;
        let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(Response::new(v1::StatsResponse {
            slices_sent: stats.protocol.sent,
            slices_retransmitted: stats.protocol.retransmitted,
            results: stats.protocol.results,
            timeouts: stats.protocol.timeouts,
            round_trip_nanoseconds: stats.protocol.round_trip.map(nanoseconds),
            frames_sent: stats.traffic.sent,
            frames_received: stats.traffic.received,
            frames_malformed: stats.traffic.malformed,
        }))
    }
}

/// The user that the calling process belongs to, as the kernel says.
fn owner<T>(request: &Request<T>) -> Result<u32, Status> {
    let info = request.extensions().get::<UdsConnectInfo>();
    let credentials = info.and_then(|info| info.peer_cred);
    let unknown = || Status::unauthenticated("the kernel does not tell who is calling");
    credentials.map(|credentials| credentials.uid()).ok_or_else(unknown)
}

/// Turns a membership's phases into events until the job is over or nobody listens.
async fn tell(
    mut phases: watch::Receiver<Phase>,
    session: SessionId,
    host: &str,
    events: &mpsc::Sender<Result<v1::JobEvent, Status>>,
) {
    loop {
        let phase = phases.borrow_and_update().clone();
        let event = match phase {
            Phase::Waiting => None,
            Phase::Running(running) => Some(Event::Started(started(session, host, &running))),
            Phase::Over(Ok(())) => Some(Event::Ended(v1::Ended {})),
            Phase::Over(Err(reason)) => Some(Event::Failed(v1::Failed { reason })),
        };
        let last = matches!(event, Some(Event::Ended(_) | Event::Failed(_)));
        if let Some(event) = event
            && events.send(Ok(v1::JobEvent { event: Some(event) })).await.is_err()
        {
            return;
        }
        if last {
            return;
        }
        tokio::select! {
            changed = phases.changed() => if changed.is_err() { return },
            () = events.closed() => return,
        }
    }
}

fn started(session: SessionId, host: &str, running: &Running) -> v1::Started {
    v1::Started {
        session: session.to_vec(),
        rank: running.rank.get().into(),
        ranks: running.config.ranks.iter().map(|rank| rank.get().into()).collect(),
        window: running.config.window,
        host: host.into(),
    }
}

/// The events of one process's job. Dropping it says that the process is gone.
pub(crate) struct JobEvents {
    events: mpsc::Receiver<Result<v1::JobEvent, Status>>,
    _session: OpenSession,
}

impl Stream for JobEvents {
    type Item = Result<v1::JobEvent, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_recv(context)
    }
}
