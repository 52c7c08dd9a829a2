//! The gRPC API: requests checked and put into the controller's terms, answers and errors put into the
//! API's.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use tributary_api::v1;
use tributary_api::v1::controller_server::Controller;
use tributary_planner::PlanError;

use crate::access::Access;
use crate::answer;
use crate::book::CreateError;
use crate::error::SwitchError;
use crate::jobs::JobError;
use crate::manager::{CreateFailure, Manager, MemberEvents};
use crate::request;

/// The service that agents call.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) manager: Arc<Manager>,
    pub(crate) access: Access,
}

#[tonic::async_trait]
impl Controller for Service {
    type JoinStream = MemberEvents;

    type AttendStream = tokio_stream::Empty<Result<v1::HostOrder, Status>>;

    async fn attend(
        &self,
        _: Request<tonic::Streaming<v1::HostReport>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        Err(Status::unimplemented("not yet"))
    }

    async fn answer(&self, _: Request<v1::AnswerRequest>) -> Result<Response<v1::AnswerResponse>, Status> {
        Err(Status::unimplemented("not yet"))
    }

    async fn create_job(
        &self,
        request: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        let topology = &self.manager.topology;
        let job = request::job(topology, request.get_ref())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.access.check_creator(&request, &topology[job.server])?;
        let (request, manager) = (request.into_inner(), self.manager.clone());
        // In a task of its own: a caller that hangs up must not leave a job half created.
        let created = tokio::spawn(async move { manager.create(&request.name, &job).await }).await;
        let key = created.map_err(|error| Status::internal(error.to_string()))?.map_err(create_status)?;
        let book = self.manager.book();
        let job = book.jobs.get(key).ok_or_else(|| Status::internal("the job is gone"))?;
        Ok(Response::new(v1::CreateJobResponse {
            token: job.record.token.to_bytes(),
            plan: Some(answer::plan_summary(&job.record.plan)),
        }))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<MemberEvents>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let request = request.into_inner();
        let events = self.manager.join(&request.job, &request.token, &request.host);
        Ok(Response::new(events.map_err(job_status)?))
    }

    async fn report_fault(
        &self,
        request: Request<v1::ReportFaultRequest>,
    ) -> Result<Response<v1::ReportFaultResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let request = request.into_inner();
        let what = format!("reported a fault: {}", request.description);
        self.manager.give_up(&request.job, &request.token, &request.host, &what).map_err(job_status)?;
        Ok(Response::new(v1::ReportFaultResponse {}))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        self.access.check_host(&request, |request| &request.host)?;
        let request = request.into_inner();
        let what = match request.reason.as_str() {
            "" => "left".to_owned(),
            reason => format!("left: {reason}"),
        };
        self.manager.give_up(&request.job, &request.token, &request.host, &what).map_err(job_status)?;
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn end_job(
        &self,
        request: Request<v1::EndJobRequest>,
    ) -> Result<Response<v1::EndJobResponse>, Status> {
        // A token is one job's, and that job is meant, whoever shows it: a later one may have the same name.
        let without_token = request.get_ref().token.is_empty() && self.access.is_operator(&request);
        let v1::EndJobRequest { job, token } = request.into_inner();
        let key = {
            let jobs = &self.manager.book().jobs;
            if without_token { jobs.latest(&job) } else { jobs.authorize(&job, &token) }
        };
        let (key, manager) = (key.map_err(job_status)?, self.manager.clone());
        // In a task of its own, for the same reason as above.
        let withdrawn = tokio::spawn(async move { manager.end(key).await }).await;
        match withdrawn.map_err(|error| Status::internal(error.to_string()))? {
            Ok(()) => Ok(Response::new(v1::EndJobResponse {})),
            Err(error) => {
                Err(switch_status(&error, "the job has ended, but its tables cannot be withdrawn: "))
            }
        }
    }

    async fn list_jobs(
        &self,
        _: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let book = self.manager.book();
        let jobs = book.jobs.iter().map(|(_, job)| answer::job(job)).collect();
        Ok(Response::new(v1::ListJobsResponse { jobs }))
    }

    async fn get_counters(
        &self,
        request: Request<v1::GetCountersRequest>,
    ) -> Result<Response<v1::GetCountersResponse>, Status> {
        let wanted = request.into_inner().switches;
        if let Some(unknown) = wanted.iter().find(|name| !self.manager.manages(name)) {
            return Err(Status::not_found(format!("no switch {unknown:?} is managed by this controller")));
        }
        let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
        let read = self.manager.counters(wanted).await.map_err(|error| switch_status(&error, ""))?;
        let book = self.manager.book();
        let switches = read
            .into_iter()
            .map(|(key, cells)| answer::counters(&self.manager.topology, &book.jobs, key, &cells))
            .collect();
        Ok(Response::new(v1::GetCountersResponse { switches }))
    }
}

fn create_status(failure: CreateFailure) -> Status {
    let message = failure.to_string();
    match failure {
        CreateFailure::Refused(CreateError::Job(error)) => job_status(error),
        CreateFailure::Refused(CreateError::Plan(PlanError::Internal(_))) => Status::internal(message),
        CreateFailure::Refused(CreateError::Plan(_)) => Status::invalid_argument(message),
        CreateFailure::Refused(CreateError::NoSlots { .. } | CreateError::TooManyJobs(_)) => {
            Status::resource_exhausted(message)
        }
        CreateFailure::Switch(error) => switch_status(&error, ""),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn job_status(error: JobError) -> Status {
    let message = error.to_string();
    match error {
        JobError::NoSuchJob(_) | JobError::NotAMember { .. } => Status::not_found(message),
        JobError::WrongToken(_) => Status::permission_denied(message),
        JobError::AlreadyJoined { .. } | JobError::AlreadyExists(_) => Status::already_exists(message),
        JobError::Over { .. } => Status::failed_precondition(message),
    }
}

fn switch_status(error: &SwitchError, what: &str) -> Status {
    Status::unavailable(format!("{what}{error}"))
}
