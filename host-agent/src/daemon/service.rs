//! The agent's gRPC service.

use std::num::NonZeroU16;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::agent::v1::agent_server::Agent;
use tributary_api::agent::v1::job_event::Event;
use tributary_api::agent::{MAX_PROCESSES, v1};
use tributary_codec::UnknownCodec;
use tributary_ps::client::{ClientOptions, Fabric};
use tributary_ps::policy::Worker;
use tributary_transport::{ClientTls, Remote};

use super::account::Account;
use super::budget::{Budget, User};
use super::host_fabric::HostFabric;
use super::jobs::Jobs;
use super::member::{Member, Phase};
use super::messages::started;
use super::process::{Process, credentials};
use super::profiles;
use super::reducing::Reducing;
use super::reductions;
use super::results::agent_status;
use super::session::{Participation, Session, SessionId, Sessions, shutting_down};
use super::training::Training;
use super::waiting;
use crate::JobMember;

/// Events that may wait until the process reads them: Started, Failed or Ended, and some Waiting
/// events.
const EVENTS: usize = 4;

/// The most servers of one training. For each server, the agent keeps a connection open.
const MAX_SERVERS: usize = 64;
/// The longest name of a job or a server, in bytes.
const MAX_NAME: usize = 255;

pub(crate) struct Service {
    pub(crate) budget: Arc<Budget>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) sessions: Arc<Sessions>,
}

#[tonic::async_trait]
impl Agent for Service {
    type OpenJobStream = JobEvents;
    type OpenTrainingStream = TrainingEvents;
    type AllReduceStream = ReceiverStream<Result<v1::AllReduceResponse, Status>>;

    async fn open_job(&self, request: Request<v1::OpenJobRequest>) -> Result<Response<JobEvents>, Status> {
        let account = Account::open(&self.budget, owner(&request)?)?;
        let process = Process::of(&request);
        let v1::OpenJobRequest { job, token, elastic, new_run, process: number, processes } =
            request.into_inner();
        let processes = processes.max(1);
        if processes > MAX_PROCESSES.into() || number >= processes {
            return Err(Status::invalid_argument(format!(
                "process {number} of {processes}: a host has up to {MAX_PROCESSES} processes in a job, and their \
                 numbers begin with 0"
            )));
        }
        check_name("job", &job)?;
        let joining =
            JobMember { elastic, new_run, processes, ..JobMember::worker(&job, &token, &self.jobs.host) };
        let (sender, events) = mpsc::channel(EVENTS);
        let (jobs, sessions) = (Arc::clone(&self.jobs), Arc::clone(&self.sessions));
        tokio::spawn(async move {
            let attached = tokio::select! {
                attached = attach(&jobs, joining, number, (account.user(), &sender)) => attached,
                () = process.ended() => return,
                () = sender.closed() => return,
                () = jobs.stopped() => Err(shutting_down()),
            };
            let member = match attached {
                Ok(member) => member,
                Err(status) => return drop(sender.send(Err(status)).await),
            };
            let reducing = Reducing::new(Arc::clone(&member), number);
            let session = sessions.open(Session::new(Participation::Job(reducing), account));
            tokio::select! {
                () = tell(member.phase(), session.id, (&jobs.host, number), &sender) => {}
                () = waiting::say(&job, (&member, number), &sender) => {}
                () = process.ended() => {}
            }
            // The agent keeps the stream open until the process closes it or ends. Closing the stream earlier would end
            // the session, and the process would not receive the reason for the job's end.
            stay(&jobs, &process, &sender).await;
        });
        Ok(Response::new(Events(events)))
    }

    async fn open_training(
        &self,
        request: Request<v1::OpenTrainingRequest>,
    ) -> Result<Response<TrainingEvents>, Status> {
        let account = Account::open(&self.budget, owner(&request)?)?;
        let process = Process::of(&request);
        let fabric = HostFabric { jobs: Arc::clone(&self.jobs), account: Arc::clone(&account) };
        let mut options = training_options(request.into_inner(), fabric, self.jobs.controller.tls())?;
        let (waits, mut waiting) = mpsc::channel(1);
        options.waits = Some(waits);
        let job = options.job.clone();
        // The descriptors for a connection to each server, and for the process's pidfd.
        let descriptors = account.descriptors(options.servers.len() as u64 + 1)?;
        let training = Training::new(options, Arc::clone(&account), descriptors);
        let session = self.sessions.open(Session::new(Participation::Training(training), account));
        let opened = v1::TrainingOpened { session: session.id.to_vec(), host: self.jobs.host.clone() };
        let (sender, events) = mpsc::channel(EVENTS);
        let jobs = Arc::clone(&self.jobs);
        tokio::spawn(async move {
            let event = Some(v1::training_event::Event::Opened(opened));
            // If the client no longer reads the events, `stay` returns immediately.
            let _ = sender.send(Ok(v1::TrainingEvent { event })).await;
            tokio::select! {
                () = stay(&jobs, &process, &sender) => {}
                () = waiting::pass_on(&job, &mut waiting, &sender) => {}
            }
            drop(session);
        });
        Ok(Response::new(Events(events)))
    }

    async fn begin_training(
        &self,
        request: Request<v1::BeginTrainingRequest>,
    ) -> Result<Response<v1::Step>, Status> {
        let request = request.into_inner();
        let (session, _call) = self.sessions.call(&request.session)?;
        session.training()?.begin(&session.segments, request).await.map(Response::new)
    }

    async fn push_gradient(
        &self,
        request: Request<v1::PushGradientRequest>,
    ) -> Result<Response<v1::Step>, Status> {
        let request = request.into_inner();
        let (session, _call) = self.sessions.call(&request.session)?;
        session.training()?.push(&session.segments, request).await.map(Response::new)
    }

    async fn push_part(
        &self,
        request: Request<v1::PushPartRequest>,
    ) -> Result<Response<v1::PushPartResponse>, Status> {
        let request = request.into_inner();
        let (session, _call) = self.sessions.call(&request.session)?;
        session.training()?.push_part(&session.segments, request).await?;
        Ok(Response::new(v1::PushPartResponse {}))
    }

    async fn drop_parts(
        &self,
        request: Request<v1::DropPartsRequest>,
    ) -> Result<Response<v1::DropPartsResponse>, Status> {
        let (session, _call) = self.sessions.call(&request.into_inner().session)?;
        session.training()?.drop_parts().await?;
        Ok(Response::new(v1::DropPartsResponse {}))
    }

    async fn open_segment(
        &self,
        request: Request<v1::OpenSegmentRequest>,
    ) -> Result<Response<v1::OpenSegmentResponse>, Status> {
        let v1::OpenSegmentRequest { session, name, bytes } = request.into_inner();
        let (session, _call) = self.sessions.call(&session)?;
        let segment = session.segments.open(&name, bytes)?;
        Ok(Response::new(v1::OpenSegmentResponse { segment }))
    }

    async fn close_segment(
        &self,
        request: Request<v1::CloseSegmentRequest>,
    ) -> Result<Response<v1::CloseSegmentResponse>, Status> {
        let v1::CloseSegmentRequest { session, segment } = request.into_inner();
        let (session, _call) = self.sessions.call(&session)?;
        session.segments.close(segment)?;
        Ok(Response::new(v1::CloseSegmentResponse {}))
    }

    async fn all_reduce(
        &self,
        request: Request<Streaming<v1::AllReduceRequest>>,
    ) -> Result<Response<Self::AllReduceStream>, Status> {
        let (answers, stream) = mpsc::channel(reductions::ANSWERS);
        let (jobs, sessions, requests) =
            (Arc::clone(&self.jobs), Arc::clone(&self.sessions), request.into_inner());
        tokio::spawn(async move {
            tokio::select! {
                () = reductions::serve(requests, &sessions, &answers) => {}
                () = jobs.stopped() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn hand_in_profile(
        &self,
        request: Request<v1::HandInProfileRequest>,
    ) -> Result<Response<v1::HandInProfileResponse>, Status> {
        let request = request.into_inner();
        let (session, _call) = self.sessions.call(&request.session)?;
        profiles::hand_in(&session.job()?.member, request).await.map(Response::new)
    }

    async fn open_group(
        &self,
        request: Request<v1::OpenGroupRequest>,
    ) -> Result<Response<v1::OpenGroupResponse>, Status> {
        let v1::OpenGroupRequest { session, group, ranks } = request.into_inner();
        let (session, _call) = self.sessions.call(&session)?;
        let job = session.job()?.member.speaker.open_group(group, ranks).await?;
        Ok(Response::new(v1::OpenGroupResponse { job }))
    }

    async fn close_job(
        &self,
        request: Request<v1::CloseJobRequest>,
    ) -> Result<Response<v1::CloseJobResponse>, Status> {
        let v1::CloseJobRequest { session, at_end } = request.into_inner();
        self.sessions.close_job(&session, at_end).await?;
        Ok(Response::new(v1::CloseJobResponse {}))
    }

    async fn count_collectives(
        &self,
        request: Request<v1::CountCollectivesRequest>,
    ) -> Result<Response<v1::CountCollectivesResponse>, Status> {
        let v1::CountCollectivesRequest { session, counts } = request.into_inner();
        let (session, _call) = self.sessions.call(&session)?;
        session.job()?.member.collectives.add(counts)?;
        Ok(Response::new(v1::CountCollectivesResponse {}))
    }

    async fn stats(&self, request: Request<v1::StatsRequest>) -> Result<Response<v1::StatsResponse>, Status> {
        let (session, _call) = self.sessions.call(&request.into_inner().session)?;
        let agent = session.job()?.member.agent()?;
        let stats = tokio::task::spawn_blocking(move || agent.stats()).await;
        let stats = stats.map_err(|error| Status::internal(error.to_string()))?;
        let stats = stats.map_err(|error| agent_status(&error, None))?;
        Ok(Response::new(v1::StatsResponse {
            slices_sent: stats.protocol.sent,
            slices_retransmitted: stats.protocol.retransmitted,
            results: stats.protocol.results,
        }))
    }
}

/// Returns the user of the calling process, as the kernel reports it.
fn owner<T>(request: &Request<T>) -> Result<User, Status> {
    let unknown = || Status::permission_denied("the kernel does not tell who is calling");
    credentials(request).map(|credentials| credentials.uid()).ok_or_else(unknown)
}

/// Builds the options with which the agent takes part in a training for a process. The agent uses
/// this host's certificate.
fn training_options(
    request: v1::OpenTrainingRequest,
    fabric: HostFabric,
    tls: Option<&ClientTls>,
) -> Result<ClientOptions, Status> {
    let invalid = |error: &dyn std::error::Error| Status::invalid_argument(error.to_string());
    let v1::OpenTrainingRequest {
        job,
        token,
        worker,
        servers,
        codec,
        patience_milliseconds,
        parameters_codec,
        workers,
        settings,
    } = request;
    check_name("job", &job)?;
    check_name("codec", &codec)?;
    check_name("codec", &parameters_codec)?;
    check_name("setting", &settings)?;
    servers.iter().try_for_each(|server| check_name("server", server))?;
    if servers.len() > MAX_SERVERS {
        let problem = format!("{} servers: a training has {MAX_SERVERS} at most", servers.len());
        return Err(Status::invalid_argument(problem));
    }
    let no_worker = || Status::invalid_argument(format!("worker {worker}: ranks are below 65536"));
    let worker = Worker::try_from(worker).map_err(|_| no_worker())?;
    let too_many = || Status::invalid_argument(format!("{workers} workers: there are less than 65536"));
    let workers = u16::try_from(workers).map_err(|_| too_many())?;
    let servers = servers.iter().map(|address| Remote::parameter_server(address, tls.cloned()));
    let servers = servers.collect::<Result<_, _>>().map_err(|error| invalid(&error))?;
    let mut options = ClientOptions::new(servers, job, worker);
    for (name, kind) in [(codec, &mut options.codec), (parameters_codec, &mut options.parameters_codec)] {
        if !name.is_empty() {
            *kind = name.parse().map_err(|error: UnknownCodec| invalid(&error))?;
        }
    }
    if patience_milliseconds > 0 {
        options.patience = Duration::from_millis(patience_milliseconds);
    }
    let fabric: Arc<dyn Fabric> = Arc::new(fabric);
    Ok(ClientOptions { token, workers: NonZeroU16::new(workers), settings, fabric: Some(fabric), ..options })
}

/// Checks the length of a name. The name appears in errors, which have to fit into a message.
fn check_name(whose: &str, name: &str) -> Result<(), Status> {
    if name.len() > MAX_NAME {
        let problem = format!("a {whose}'s name of {} bytes: {MAX_NAME} are the most", name.len());
        return Err(Status::invalid_argument(problem));
    }
    Ok(())
}

/// Attaches a process to the host's membership in a job, when all processes of the host have come.
/// Reports the missing processes until then.
async fn attach(
    jobs: &Jobs,
    joining: JobMember,
    number: u32,
    (user, events): (User, &mpsc::Sender<Result<v1::JobEvent, Status>>),
) -> Result<Arc<Member>, Status> {
    let arrival = jobs.arrive(&joining, number).await?;
    if let Some(arrival) = &arrival {
        tokio::select! {
            () = arrival.complete() => {}
            ended = waiting::for_processes(jobs, &joining, arrival, events) => return Err(ended),
        }
    }
    jobs.attach(joining, number, user).await
}

/// Sends an event for each new phase of a membership until the job is over or the client stops
/// reading.
async fn tell(
    mut phases: watch::Receiver<Phase>,
    session: SessionId,
    (host, process): (&str, u32),
    events: &mpsc::Sender<Result<v1::JobEvent, Status>>,
) {
    loop {
        let phase = phases.borrow_and_update().clone();
        let event = match phase {
            Phase::Waiting => None,
            Phase::Running(agent) => {
                // If the agent has already ended, the next phase reports the end.
                let situation = agent.situation().await.ok();
                situation.map(|situation| {
                    Event::Started(started(&session, (host, process), agent.width, situation))
                })
            }
            Phase::Over(Ok(())) => Some(Event::Ended(v1::Ended {})),
            Phase::Over(Err(error)) => Some(Event::Failed(v1::Failed { reason: error.to_string() })),
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

/// Waits until the process has closed the stream of events or has ended, or until the agent stops.
async fn stay<E>(jobs: &Jobs, process: &Process, events: &mpsc::Sender<Result<E, Status>>) {
    tokio::select! {
        () = events.closed() => {}
        () = process.ended() => {}
        () = jobs.stopped() => {}
    }
}

pub(crate) type JobEvents = Events<v1::JobEvent>;
pub(crate) type TrainingEvents = Events<v1::TrainingEvent>;

/// The stream of events of a session. The session ends when the server drops it.
pub(crate) struct Events<E>(mpsc::Receiver<Result<E, Status>>);

impl<E> Stream for Events<E> {
    type Item = Result<E, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
