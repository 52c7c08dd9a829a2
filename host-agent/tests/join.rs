//! The join client against a controller that follows a script, over loopback TCP.

#![allow(clippy::unwrap_used)] // helpers of tests

mod job;

use std::sync::{Arc, Mutex};

use job::configs;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};
use tributary_api::v1::controller_server::{Controller, ControllerServer};
use tributary_api::v1::{self, job_event::Event};
use tributary_api::{Downlink, JobConfig};
use tributary_host_agent::{JobEvent, JobMember, JoinError, Membership};
use tributary_transport::Remote;

const TOKEN: &[u8] = b"token";

/// Sends every member the same events, then closes the stream; keeps what members tell it.
#[derive(Default)]
struct Script {
    events: Vec<Option<Event>>,
    heard: Arc<Mutex<Vec<String>>>,
}

fn check_token(token: &[u8]) -> Result<(), Status> {
    if token == TOKEN { Ok(()) } else { Err(Status::permission_denied("wrong token for this job")) }
}

#[tonic::async_trait]
impl Controller for Script {
    type JoinStream = tokio_stream::Iter<std::vec::IntoIter<Result<v1::JobEvent, Status>>>;

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

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<Self::JoinStream>, Status> {
        let v1::JoinRequest { job, token, host, .. } = request.into_inner();
        check_token(&token)?;
        self.heard.lock().unwrap().push(format!("{host} joins {job}"));
        let events: Vec<_> =
            self.events.iter().map(|event| Ok(v1::JobEvent { event: event.clone() })).collect();
        Ok(Response::new(tokio_stream::iter(events)))
    }

    async fn report_fault(
        &self,
        request: Request<v1::ReportFaultRequest>,
    ) -> Result<Response<v1::ReportFaultResponse>, Status> {
        let v1::ReportFaultRequest { job, token, host, description } = request.into_inner();
        check_token(&token)?;
        self.heard.lock().unwrap().push(format!("{host} reports to {job}: {description}"));
        Ok(Response::new(v1::ReportFaultResponse {}))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        let v1::LeaveRequest { job, token, host, reason } = request.into_inner();
        check_token(&token)?;
        self.heard.lock().unwrap().push(format!("{host} leaves {job}: {reason}"));
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn create_job(
        &self,
        _: Request<v1::CreateJobRequest>,
    ) -> Result<Response<v1::CreateJobResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn end_job(&self, _: Request<v1::EndJobRequest>) -> Result<Response<v1::EndJobResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_jobs(
        &self,
        _: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn get_counters(
        &self,
        _: Request<v1::GetCountersRequest>,
    ) -> Result<Response<v1::GetCountersResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }
}

/// Serves the script for as long as the test's runtime lives.
async fn serve(script: Script) -> Remote {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = ControllerServer::new(script);
    tokio::spawn(
        Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)),
    );
    Remote::controller(&address.to_string(), None).unwrap()
}

fn member(token: &[u8]) -> JobMember {
    JobMember { job: "digits".into(), token: token.into(), host: "w1".into() }
}

fn config() -> JobConfig {
    configs(2, Downlink::Unicast).1
}

async fn join(events: Vec<Option<Event>>) -> Membership {
    let controller = serve(Script { events, ..Script::default() }).await;
    Membership::join(&controller, member(TOKEN)).await.unwrap()
}

#[tokio::test]
async fn a_member_is_told_the_course_of_its_job() {
    let events = vec![
        Some(Event::Start(v1::JobConfig::from(&config()))),
        Some(Event::Failed(v1::JobFailed { reason: "host w2 has left".into() })),
        Some(Event::Ended(v1::JobEnded {})),
    ];
    let mut membership = join(events).await;
    assert_eq!(membership.next_event().await.unwrap(), JobEvent::Start(Box::new(config())));
    let failed = JobEvent::Failed { reason: "host w2 has left".into() };
    assert_eq!(membership.next_event().await.unwrap(), failed);
    assert_eq!(membership.next_event().await.unwrap(), JobEvent::Ended);
    assert!(matches!(membership.next_event().await, Err(JoinError::Closed)));
}

#[tokio::test]
async fn events_that_make_no_sense_are_errors() {
    let bad = v1::JobConfig { window: 3, ..v1::JobConfig::from(&config()) };
    let mut membership = join(vec![Some(Event::Start(bad)), None]).await;
    let error = membership.next_event().await.unwrap_err();
    assert!(matches!(error, JoinError::BadConfig(_)) && error.to_string().contains("window"), "{error}");
    assert!(matches!(membership.next_event().await, Err(JoinError::UnknownEvent)));
}

#[tokio::test]
async fn a_member_speaks_with_its_jobs_token() {
    let script = Script::default();
    let heard = Arc::clone(&script.heard);
    let controller = serve(script).await;
    let membership = Membership::join(&controller, member(TOKEN)).await.unwrap();
    membership.speaker().report_fault("check mismatch in slice 7").await.unwrap();
    membership.leave("shutting down").await.unwrap();
    let expected = [
        "w1 joins digits",
        "w1 reports to digits: check mismatch in slice 7",
        "w1 leaves digits: shutting down",
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_refusal_carries_the_controllers_reason() {
    let controller = serve(Script::default()).await;
    let error = Membership::join(&controller, member(b"guessed")).await.unwrap_err();
    let JoinError::Refused { code, message, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*code, message.as_str()), (Code::PermissionDenied, "wrong token for this job"));
}

#[tokio::test]
async fn a_controller_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let controller = Remote::controller(&address, None).unwrap();
    let error = Membership::join(&controller, member(TOKEN)).await.unwrap_err();
    assert!(matches!(error, JoinError::Connect(_)) && error.to_string().contains(&address), "{error}");
}
