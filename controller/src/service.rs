//! The gRPC API: checks requests, converts them to the controller's types, and converts results and
//! errors back.

use std::num::NonZeroU16;
use std::sync::Arc;

use tokio::sync::oneshot;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::v1::controller_server::Controller;
use tributary_api::{JobCredentials, v1};
use tributary_planner::PlanError;
use tributary_transport::Peer;

use crate::access::Access;
use crate::answer;
use crate::events::plain;
use crate::explain;
use crate::groups::{self, GroupError};
use crate::host_session::{self, HostSession};
use crate::jobs::{JobError, JobState, Joining, ParticipantId};
use crate::manager::{CreateFailure, Manager, MemberEvents};
use crate::quotas::Asking;
use crate::reconciler::{self, JoinFailure};
use crate::request;
use crate::schedules;
use crate::state::CreateError;
use crate::wrong_sum::{WrongSumReport, await_verdict};

/// The gRPC service that agents and tools call.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) manager: Arc<Manager>,
    pub(crate) access: Access,
}

#[tonic::async_trait]
impl Controller for Service {
    type JoinStream = MemberEvents;

    type OpenSessionStream = HostSession;

    async fn open_session(
        &self,
        request: Request<Streaming<v1::HostReport>>,
    ) -> Result<Response<HostSession>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let check = |host: &str| self.access.check_peer(peer.as_ref(), host);
        let reports = request.into_inner();
        host_session::open(&self.manager, reports, check).await.map(Response::new)
    }

    async fn answer(
        &self,
        request: Request<v1::AnswerRequest>,
    ) -> Result<Response<v1::AnswerResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let JobCredentials { job, token } = credentials(request.metadata())?;
        let v1::AnswerRequest { host, role, generation, answer } = request.into_inner();
        let answer = answer.ok_or_else(|| Status::invalid_argument("the answer is missing"))?;
        let meant = meant(role)?;
        let answered = self.manager.answer(&job, &token, &host, meant, (generation, answer));
        answered.map_err(job_status)?;
        Ok(Response::new(v1::AnswerResponse {}))
    }

    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        let topology = &self.manager.topology();
        let invalid = |error: request::RequestError| Status::invalid_argument(error.to_string());
        let widest = self.manager.state().capacity.widest;
        let job = request::job(topology, widest, request.get_ref()).map_err(invalid)?;
        let threads = || {
            let state = self.manager.state();
            request::default_threads(topology, &job, |host| state.hosts.processors(host))
        };
        let terms = request::terms(request.get_ref(), threads).map_err(invalid)?;
        let creator = self.access.check_creator(&request, &topology[job.server])?;
        let (request, manager) = (request.into_inner(), self.manager.clone());
        let asking = Asking { creator, waits: request.wait };
        let (tell, created) = oneshot::channel();
        // The creation runs in its own task. If the caller disconnects, no job may stay half created or without a
        // caller that has its token.
        tokio::spawn(async move {
            let created = reconciler::create_job(&manager, &asking, &request.name, &job, terms).await;
            if let Err(Ok(key)) = tell.send(created) {
                tracing::info!(job = request.name, "whoever created it has hung up: it is ended again");
                // The error is ignored, because the controller logs the remaining work and retries it without a caller.
                let _ = manager.end(key).await;
            }
        });
        let created = created.await.map_err(|error| Status::internal(error.to_string()))?;
        let key = created.map_err(|failure| create_status(failure, self.losses()))?;
        let state = self.manager.state();
        let job = state.jobs.get(key).ok_or_else(|| Status::internal("the job is gone"))?;
        Ok(Response::new(v1::CreateJobResponse {
            token: job.record.token.to_bytes(),
            plan: Some(answer::plan_summary(&job.record.generation().plan)),
            queued: *job.state() == JobState::Queued,
        }))
    }

    async fn open_group(
        &self,
        request: Request<v1::OpenGroupRequest>,
    ) -> Result<Response<v1::OpenGroupResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let manager = self.manager.clone();
        let v1::OpenGroupRequest { job, token, host, group, ranks } = request.into_inner();
        // The call runs in its own task, so that it completes even if the caller disconnects.
        let opened =
            tokio::spawn(
                async move { groups::open(&manager, (&job, &token), &host, (&group, &ranks)).await },
            );
        let opened = opened.await.map_err(|error| Status::internal(error.to_string()))?;
        let job = opened.map_err(|error| group_status(error, self.losses()))?;
        Ok(Response::new(v1::OpenGroupResponse { job }))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<MemberEvents>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let request = request.into_inner();
        let invalid = |error: request::RequestError| Status::invalid_argument(error.to_string());
        let processes = request::processes(request.processes).map_err(invalid)?;
        let joining = Joining {
            host: &request.host,
            role: role(request.role)?,
            elastic: request.elastic,
            resume: request.resume_generation,
            new_run: request.new_run && request.resume_generation == 0,
            processes: processes.unwrap_or(NonZeroU16::MIN),
        };
        let credentials = (&*request.job, &*request.token);
        match reconciler::join(&self.manager, credentials, &joining).await {
            Ok(events) => Ok(Response::new(events)),
            Err(JoinFailure::Job(error)) => Err(job_status(error)),
            Err(JoinFailure::Create(failure)) => Err(create_status(failure, self.losses())),
        }
    }

    async fn report_fault(
        &self,
        request: Request<v1::ReportFaultRequest>,
    ) -> Result<Response<v1::ReportFaultResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let v1::ReportFaultRequest { job, token, host, description, given } = request.into_inner();
        let description = plain(&description);
        let Some(given) = given else {
            let what = format!("reported a fault: {description}");
            self.manager.give_up(&job, &token, &host, &what).map_err(job_status)?;
            return Ok(Response::new(v1::ReportFaultResponse::default()));
        };
        let report = WrongSumReport::new(given, description);
        let verdict = self.manager.report_wrong_sum(&job, &token, &host, report).map_err(job_status)?;
        let verdict = await_verdict(verdict).await;
        Ok(Response::new(v1::ReportFaultResponse { verdict }))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let mut request = request.into_inner();
        request.reason = plain(&request.reason);
        let meant = meant(request.role)?;
        self.manager.leave(&request, meant).map_err(job_status)?;
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn end_job(
        &self,
        request: Request<v1::EndJobRequest>,
    ) -> Result<Response<v1::EndJobResponse>, Status> {
        // A token is checked even if an operator shows it, because it belongs to one job and a later job may have the
        // same name.
        let without_token = request.get_ref().token.is_empty() && self.access.is_operator(&request);
        let v1::EndJobRequest { job, token } = request.into_inner();
        let key = {
            let jobs = &self.manager.state().jobs;
            if without_token { jobs.latest(&job) } else { jobs.authorize(&job, &token) }
        };
        let (key, manager) = (key.map_err(job_status)?, self.manager.clone());
        // The call runs in its own task, so that it completes even if the caller disconnects.
        let withdrawn = tokio::spawn(async move { manager.end_permanently(key).await }).await;
        match withdrawn.map_err(|error| Status::internal(error.to_string()))? {
            Ok(()) => Ok(Response::new(v1::EndJobResponse {})),
            Err(failure) => Err(Status::unavailable(failure.to_string())),
        }
    }

    async fn list_jobs(
        &self,
        _: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let state = self.manager.state();
        let topology = self.manager.topology();
        let jobs = state.jobs.iter().map(|job| answer::job(&topology, &state, job)).collect();
        Ok(Response::new(v1::ListJobsResponse { jobs }))
    }

    async fn explain_job(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let name = request.into_inner().job;
        let state = self.manager.state();
        let job = state.jobs.latest(&name).map_err(job_status)?;
        let job = state.jobs.get(job).ok_or_else(|| job_status(JobError::NoSuchJob(name)))?;
        Ok(Response::new(explain::job(&self.manager.topology(), job)))
    }

    async fn hand_in_profile(
        &self,
        request: Request<v1::HandInProfileRequest>,
    ) -> Result<Response<v1::HandInProfileResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let v1::HandInProfileRequest { job, token, host, number, profile } = request.into_inner();
        let (number, profile) = schedules::checked(number, profile)?;
        let heard = schedules::hand_in(&self.manager, (&job, &token, &host), number, &profile).await;
        schedules::answer(heard.map_err(job_status)?).map(Response::new)
    }

    async fn get_schedule(
        &self,
        request: Request<v1::GetScheduleRequest>,
    ) -> Result<Response<v1::GetScheduleResponse>, Status> {
        let name = request.into_inner().job;
        let state = self.manager.state();
        let job = state.jobs.latest(&name).map_err(job_status)?;
        let agreed = state.jobs.get(job).and_then(|job| job.profiles.agreed());
        let agreed = agreed.ok_or_else(|| {
            let problem = "has no schedule: its processes make one with tributary.torch.TimePoints";
            Status::not_found(format!("job {name:?} {problem}"))
        })?;
        Ok(Response::new(schedules::report(&name, agreed)))
    }

    async fn get_counters(
        &self,
        request: Request<v1::GetCountersRequest>,
    ) -> Result<Response<v1::GetCountersResponse>, Status> {
        let wanted = self.wanted(request.into_inner().switches)?;
        let switches = answer::all_counters(&self.manager, wanted).await;
        Ok(Response::new(v1::GetCountersResponse { switches }))
    }

    async fn list_switches(
        &self,
        _: Request<v1::ListSwitchesRequest>,
    ) -> Result<Response<v1::ListSwitchesResponse>, Status> {
        Ok(Response::new(v1::ListSwitchesResponse { switches: answer::switches(&self.manager) }))
    }

    async fn compare_tables(
        &self,
        request: Request<v1::CompareTablesRequest>,
    ) -> Result<Response<v1::CompareTablesResponse>, Status> {
        let wanted = self.wanted(request.into_inner().switches)?;
        let switches = answer::comparisons(&self.manager, wanted).await;
        Ok(Response::new(v1::CompareTablesResponse { switches }))
    }

    async fn list_hosts(
        &self,
        _: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        Ok(Response::new(v1::ListHostsResponse { hosts: answer::hosts(&self.manager) }))
    }

    async fn list_links(
        &self,
        _: Request<v1::ListLinksRequest>,
    ) -> Result<Response<v1::ListLinksResponse>, Status> {
        Ok(Response::new(v1::ListLinksResponse { links: answer::links(&self.manager) }))
    }

    async fn get_tree(
        &self,
        request: Request<v1::GetTreeRequest>,
    ) -> Result<Response<v1::GetTreeResponse>, Status> {
        let name = request.into_inner().job;
        let state = self.manager.state();
        let job = state.jobs.latest(&name).map_err(job_status)?;
        let job = state.jobs.get(job).ok_or_else(|| job_status(JobError::NoSuchJob(name)))?;
        Ok(Response::new(answer::tree(&self.manager.topology(), job)))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let events = self.manager.events.after(request.into_inner().after);
        Ok(Response::new(v1::ListEventsResponse { events }))
    }

    async fn get_controller(
        &self,
        _: Request<v1::GetControllerRequest>,
    ) -> Result<Response<v1::GetControllerResponse>, Status> {
        Ok(Response::new(answer::controller(&self.manager)))
    }
}

impl Service {
    /// Returns a test for the switches with these names. If `names` is empty, all switches pass.
    fn wanted(&self, names: Vec<String>) -> Result<impl Fn(&str) -> bool + use<>, Status> {
        let manages = |name: &String| self.manager.switches.values().any(|switch| switch.name() == name);
        if let Some(unknown) = names.iter().find(|name| !manages(name)) {
            return Err(Status::not_found(format!("no switch {unknown:?} is managed by this controller")));
        }
        Ok(move |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name))
    }

    fn losses(&self) -> Option<String> {
        self.manager.state().health.losses(&self.manager.topology())
    }
}

fn role(number: i32) -> Result<v1::MemberRole, Status> {
    let unknown = |_| Status::invalid_argument(format!("member role {number} is unknown to this controller"));
    v1::MemberRole::try_from(number).map_err(unknown)
}

/// Returns a test for participants with the role `number`. The unspecified role matches all
/// participants.
fn meant(number: i32) -> Result<impl Fn(&ParticipantId) -> bool, Status> {
    let role = role(number)?;
    Ok(move |id: &ParticipantId| match role {
        v1::MemberRole::Unspecified => true,
        v1::MemberRole::Worker => matches!(id, ParticipantId::Worker(_)),
        v1::MemberRole::Server => matches!(id, ParticipantId::Server(_)),
    })
}

/// Converts the reason why a job was not created to a status. `losses` describes the dead parts of the
/// fabric.
fn create_status(failure: CreateFailure, losses: Option<String>) -> Status {
    let message = failure.to_string();
    match failure {
        CreateFailure::Refused(CreateError::Job(error)) => job_status(error),
        CreateFailure::Refused(CreateError::Plan(PlanError::Internal(_))) => Status::internal(message),
        CreateFailure::Refused(CreateError::Plan(_)) => match losses {
            // The plan may be possible when the dead parts work again.
            Some(losses) => Status::unavailable(format!("{message}; dead at the moment: {losses}")),
            None => Status::invalid_argument(message),
        },
        CreateFailure::Refused(CreateError::TooWide { .. }) => Status::invalid_argument(message),
        CreateFailure::Refused(
            CreateError::NoSlots { .. }
            | CreateError::TooManyJobs(_)
            | CreateError::JobQuota { .. }
            | CreateError::SlotQuota { .. }
            | CreateError::QueueFull(_),
        ) => Status::resource_exhausted(message),
        CreateFailure::Switch(_) | CreateFailure::Journal(_) => Status::unavailable(message),
    }
}

fn group_status(error: GroupError, losses: Option<String>) -> Status {
    let message = error.to_string();
    match error {
        GroupError::Job(error) => job_status(error),
        GroupError::Create(failure) => create_status(failure, losses),
        GroupError::NotRunning(_) | GroupError::OfGroup(_) => Status::failed_precondition(message),
        GroupError::Id(_)
        | GroupError::OneHost(_)
        | GroupError::NoRank { .. }
        | GroupError::Differs { .. } => Status::invalid_argument(message),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn job_status(error: JobError) -> Status {
    let message = error.to_string();
    match error {
        JobError::NoSuchJob(_) | JobError::NotAMember { .. } => Status::not_found(message),
        JobError::WrongToken(_) | JobError::NoToken(_) => Status::permission_denied(message),
        JobError::AlreadyJoined { .. } | JobError::AlreadyExists(_) => Status::already_exists(message),
        JobError::Over { .. }
        | JobError::Closed { .. }
        | JobError::OtherThanCreated { .. }
        | JobError::OtherThanStarted { .. } => Status::failed_precondition(message),
        JobError::NotAsked(_) => Status::aborted(message),
    }
}

/// Returns the job and token in a call's metadata.
pub(crate) fn credentials(metadata: &MetadataMap) -> Result<JobCredentials, Status> {
    JobCredentials::read(metadata).ok_or_else(|| {
        Status::permission_denied(
            "the call has no job and token in its metadata: an agent of another version?",
        )
    })
}
