//! A controller that knows one job: it starts the job when all workers have joined, and fails it when one goes, or
//! ends it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tributary_api::JobConfig;
use tributary_api::v1::controller_server::{Controller, ControllerServer};
use tributary_api::v1::{self, job_event::Event};
use tributary_transport::Remote;

/// The job's.
pub(crate) const TOKEN: &[u8] = b"token";

type Events = mpsc::Sender<Result<v1::JobEvent, Status>>;

pub(crate) struct Directory {
    address: String,
    /// What members have said, as it comes.
    news: mpsc::UnboundedReceiver<String>,
    all: Arc<Mutex<Vec<String>>>,
    members: Arc<Mutex<Members>>,
}

impl Directory {
    /// Worker 0 is on host w0, and so on.
    pub(crate) async fn start(configs: Vec<JobConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (heard, news) = mpsc::unbounded_channel();
        let all = Arc::new(Mutex::new(Vec::new()));
        let members = Arc::new(Mutex::default());
        let service = Service { configs, members: Arc::clone(&members), heard, all: Arc::clone(&all) };
        let serving = Server::builder().add_service(ControllerServer::new(service));
        tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, news, all, members }
    }

    /// Ends the job, and waits until all members have let go of it.
    pub(crate) async fn end(&self) {
        let members = std::mem::take(&mut *self.members.lock().unwrap());
        tell(&members, &Event::Ended(v1::JobEnded {}));
        for events in members.into_values() {
            events.closed().await;
        }
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::controller(&self.address, None).unwrap()
    }

    /// All that was said, sorted: members speak at the same time.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut heard = self.all.lock().unwrap().clone();
        heard.sort();
        heard
    }

    /// Waits until a member says something that begins like this.
    pub(crate) async fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let heard = self.news.recv().await.unwrap();
            if heard.starts_with(beginning) {
                return heard;
            }
        }
    }
}

/// Those who have joined, by host.
type Members = BTreeMap<String, Events>;

fn tell(members: &Members, event: &Event) {
    for events in members.values() {
        // One that has gone needs no telling.
        let _ = events.try_send(Ok(v1::JobEvent { event: Some(event.clone()) }));
    }
}

struct Service {
    configs: Vec<JobConfig>,
    members: Arc<Mutex<Members>>,
    heard: mpsc::UnboundedSender<String>,
    all: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn hear(&self, what: String) {
        self.all.lock().unwrap().push(what.clone());
        // A test that is over does not listen.
        let _ = self.heard.send(what);
    }

    fn fail(&self, reason: String) {
        let members = std::mem::take(&mut *self.members.lock().unwrap());
        tell(&members, &Event::Failed(v1::JobFailed { reason: reason.clone() }));
        self.hear(reason);
    }
}

fn check_token(token: &[u8]) -> Result<(), Status> {
    if token == TOKEN { Ok(()) } else { Err(Status::permission_denied("wrong token for this job")) }
}

#[tonic::async_trait]
impl Controller for Service {
    type JoinStream = ReceiverStream<Result<v1::JobEvent, Status>>;

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
        let v1::JoinRequest { token, host, .. } = request.into_inner();
        check_token(&token)?;
        self.hear(format!("{host} joins"));
        let (sender, events) = mpsc::channel(2);
        let mut members = self.members.lock().unwrap();
        members.insert(host, sender);
        if members.len() == self.configs.len() {
            for (events, config) in members.values().zip(&self.configs) {
                let event = Some(Event::Start(config.into()));
                events.try_send(Ok(v1::JobEvent { event })).unwrap();
            }
        }
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn report_fault(
        &self,
        request: Request<v1::ReportFaultRequest>,
    ) -> Result<Response<v1::ReportFaultResponse>, Status> {
        let v1::ReportFaultRequest { token, host, description, .. } = request.into_inner();
        check_token(&token)?;
        self.fail(format!("{host} reports: {description}"));
        Ok(Response::new(v1::ReportFaultResponse {}))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        let v1::LeaveRequest { token, host, reason, .. } = request.into_inner();
        check_token(&token)?;
        self.fail(format!("{host} leaves: {reason}"));
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
