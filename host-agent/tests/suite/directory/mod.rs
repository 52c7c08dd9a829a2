//! A simulated controller of one job. It starts the job when all workers have joined, and otherwise
//! follows the test's orders.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::controller_server::{Controller, ControllerServer};
use tributary_api::v1::{self, host_order::Order, host_report::Report, job_event::Event};
use tributary_api::{JobConfig, JobCredentials, MAX_MESSAGE_BYTES};
use tributary_transport::Remote;

/// The token of the job.
pub(crate) const TOKEN: &[u8] = b"token";
/// The node id that every host gets.
pub(crate) const NODE: u32 = 4711;
/// The length of the long probes that every host must send, in bytes.
pub(crate) const LONG_PROBE_BYTES: u32 = 1_142;

type Events = mpsc::Sender<Result<v1::JobEvent, Status>>;
type Orders = mpsc::Sender<Result<v1::HostOrder, Status>>;

pub(crate) struct Directory {
    address: String,
    /// The reports of the members' actions, in the order of arrival.
    news: mpsc::UnboundedReceiver<String>,
    answers: mpsc::UnboundedReceiver<v1::AnswerRequest>,
    state: Arc<Mutex<State>>,
}

/// The state that the test and the service share.
struct State {
    /// The configurations of the workers on w0, w1 and so on, until all of them have joined.
    configs: Vec<JobConfig>,
    /// True if the job fails when a member leaves.
    rigid: bool,
    over: bool,
    /// The joined members by host; a server's key includes its role.
    members: BTreeMap<String, Events>,
    /// The daemons with a session.
    hosts: BTreeMap<String, Orders>,
    probe_interval: u32,
    waiting_for: Vec<String>,
    setback: String,
    heard: mpsc::UnboundedSender<String>,
    answered: mpsc::UnboundedSender<v1::AnswerRequest>,
    /// All reports of the members' actions.
    all: Vec<String>,
    /// The last heartbeat of each host.
    heartbeats: BTreeMap<String, v1::Heartbeat>,
}

impl Directory {
    /// Starts a controller. Worker 0 is on host w0, and so on. The job fails when the first member
    /// leaves.
    pub(crate) async fn start(configs: Vec<JobConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let ((heard, news), (answered, answers)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let state = Arc::new(Mutex::new(State {
            configs,
            rigid: true,
            over: false,
            members: BTreeMap::new(),
            hosts: BTreeMap::new(),
            probe_interval: 0,
            waiting_for: Vec::new(),
            setback: String::new(),
            heard,
            answered,
            all: Vec::new(),
            heartbeats: BTreeMap::new(),
        }));
        let service = ControllerServer::new(Service(Arc::clone(&state)));
        let service = service.max_decoding_message_size(MAX_MESSAGE_BYTES);
        let serving = Server::builder().serve_with_incoming(service, TcpListenerStream::new(listener));
        tokio::spawn(serving);
        Self { address, news, answers, state }
    }

    /// Lets the job continue when a member leaves from now on.
    pub(crate) fn carry_on(&self) {
        self.state().rigid = false;
    }

    /// Refuses all members that join again from now on.
    pub(crate) fn forget(&self) {
        self.state().over = true;
    }

    /// Sets the probe interval that every host gets.
    pub(crate) fn probe_every(&self, milliseconds: u32) {
        self.state().probe_interval = milliseconds;
    }

    /// Sets the text that the controller reports as the cause of the job's wait.
    pub(crate) fn waits_for(&self, what: &str) {
        self.state().waiting_for = vec![what.to_owned()];
    }

    /// Sets the reason why the job does not change to the next generation.
    pub(crate) fn is_set_back(&self, why: &str) {
        why.clone_into(&mut self.state().setback);
    }

    /// Ends the job, and waits until all members have dropped their streams.
    pub(crate) async fn end(&self) {
        let members = std::mem::take(&mut self.state().members);
        tell(&members, &Event::Ended(v1::JobEnded {}));
        for events in members.into_values() {
            events.closed().await;
        }
    }

    /// Sends an event to one member.
    pub(crate) async fn tell(&self, member: &str, event: Event) {
        let events = self.state().members.get(member).cloned().unwrap();
        events.send(Ok(v1::JobEvent { event: Some(event) })).await.unwrap();
    }

    /// Sends an order to one host's daemon.
    pub(crate) async fn order(&self, host: &str, order: Order) {
        let orders = self.state().hosts.get(host).cloned().unwrap();
        orders.send(Ok(v1::HostOrder { order: Some(order) })).await.unwrap();
    }

    /// Closes a member's stream of events without an event.
    pub(crate) fn hang_up(&self, member: &str) {
        self.state().members.remove(member);
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::controller(&self.address, None).unwrap()
    }

    /// Returns all reports, sorted, because members act at the same time.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut heard = self.state().all.clone();
        heard.sort();
        heard
    }

    /// Waits for a report that begins with `beginning`.
    pub(crate) async fn wait_for(&mut self, beginning: &str) -> String {
        loop {
            let heard = self.news.recv().await.unwrap();
            if heard.starts_with(beginning) {
                return heard;
            }
        }
    }

    /// Drops all earlier reports, so that [`wait_for`](Self::wait_for) does not return them.
    pub(crate) fn listen_from_now_on(&mut self) {
        while self.news.try_recv().is_ok() {}
    }

    /// Waits for the next answer of a member. Returns its host, the generation, and the answer.
    pub(crate) async fn answer(&mut self) -> (String, u32, Answer) {
        let v1::AnswerRequest { host, generation, answer, .. } = self.answers.recv().await.unwrap();
        (host, generation, answer.unwrap())
    }

    /// Waits for the progress of `members` members. Returns it by host.
    pub(crate) async fn progress(&mut self, members: usize) -> BTreeMap<String, v1::WorkerProgress> {
        let mut all = BTreeMap::new();
        while all.len() < members {
            let (host, _, Answer::Progress(progress)) = self.answer().await else { panic!("no progress") };
            all.insert(host, progress);
        }
        all
    }

    /// Returns the last heartbeat of a host's daemon.
    pub(crate) fn heartbeat(&self, host: &str) -> Option<v1::Heartbeat> {
        self.state().heartbeats.get(host).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn tell(members: &BTreeMap<String, Events>, event: &Event) {
    for events in members.values() {
        // A member that has gone needs no event.
        let _ = events.try_send(Ok(v1::JobEvent { event: Some(event.clone()) }));
    }
}

impl State {
    fn hear(&mut self, what: String) {
        self.all.push(what.clone());
        // The test may be over and may have dropped the receiver.
        let _ = self.heard.send(what);
    }

    /// Handles the departure of a member.
    fn lose(&mut self, member: &str, reason: String) {
        if self.rigid {
            let members = std::mem::take(&mut self.members);
            tell(&members, &Event::Failed(v1::JobFailed { reason: reason.clone(), wrong_sum: false }));
        } else {
            self.members.remove(member);
        }
        self.hear(reason);
    }

    fn start_when_complete(&mut self) {
        let workers: Vec<_> = (0..self.configs.len()).map(|rank| format!("w{rank}")).collect();
        if !workers.iter().all(|worker| self.members.contains_key(worker)) {
            return;
        }
        for (worker, config) in workers.iter().zip(std::mem::take(&mut self.configs)) {
            let event = Some(Event::Start((&config).into()));
            self.members[worker].try_send(Ok(v1::JobEvent { event })).unwrap();
        }
    }
}

struct Service(Arc<Mutex<State>>);

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

fn check_token(token: &[u8]) -> Result<(), Status> {
    if token == TOKEN { Ok(()) } else { Err(Status::permission_denied("wrong token for this job")) }
}

/// Returns the name of a member. It includes the server's role, because a host may be in the job in
/// both roles.
fn member(host: &str, role: i32) -> String {
    match v1::MemberRole::try_from(role).unwrap() {
        v1::MemberRole::Server => format!("{host} as the server"),
        v1::MemberRole::Worker | v1::MemberRole::Unspecified => host.to_owned(),
    }
}

#[tonic::async_trait]
impl Controller for Service {
    type JoinStream = ReceiverStream<Result<v1::JobEvent, Status>>;

    type OpenSessionStream = ReceiverStream<Result<v1::HostOrder, Status>>;

    async fn open_session(
        &self,
        request: Request<Streaming<v1::HostReport>>,
    ) -> Result<Response<Self::OpenSessionStream>, Status> {
        let mut reports = request.into_inner();
        let first = reports.message().await?.and_then(|report| report.report);
        let Some(Report::Hello(hello)) = first else { return Err(Status::invalid_argument("no Hello")) };
        let v1::Hello { host, version, mac, serves, works, .. } = hello;
        if !host.starts_with('w') {
            return Err(Status::not_found(format!("there is no host {host:?}")));
        }
        let (orders, stream) = mpsc::channel(4);
        let order = {
            let mut state = self.state();
            state.hear(format!(
                "{host} connected: version {version}, {mac:?}, serves {serves}, works {works}"
            ));
            state.hosts.insert(host.clone(), orders.clone());
            let welcome = v1::Welcome {
                node: NODE,
                probe_interval_milliseconds: state.probe_interval,
                long_probe_interval_milliseconds: 10 * state.probe_interval,
                long_probe_bytes: LONG_PROBE_BYTES,
            };
            Some(Order::Welcome(welcome))
        };
        orders.try_send(Ok(v1::HostOrder { order })).unwrap();
        let state = Arc::clone(&self.0);
        tokio::spawn(async move {
            while let Ok(Some(v1::HostReport { report: Some(Report::Heartbeat(heartbeat)) })) =
                reports.message().await
            {
                state.lock().unwrap().heartbeats.insert(host.clone(), heartbeat);
            }
            state.lock().unwrap().hear(format!("{host} disconnected"));
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn answer(
        &self,
        request: Request<v1::AnswerRequest>,
    ) -> Result<Response<v1::AnswerResponse>, Status> {
        check_token(&JobCredentials::read(request.metadata()).unwrap().token)?;
        let request = request.into_inner();
        // The test may be over and may have dropped the receiver.
        let _ = self.state().answered.send(request);
        Ok(Response::new(v1::AnswerResponse {}))
    }

    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<Self::JoinStream>, Status> {
        let v1::JoinRequest { token, host, role, elastic, resume_generation, .. } = request.into_inner();
        check_token(&token)?;
        let member = member(&host, role);
        let (sender, events) = mpsc::channel(8);
        let mut state = self.state();
        if state.over {
            return Err(Status::failed_precondition("the job is over: it was ended"));
        }
        state.members.insert(member.clone(), sender);
        state.hear(match (resume_generation, elastic) {
            (0, false) => format!("{member} joins"),
            (0, true) => format!("{member} joins, elastic"),
            (generation, _) => format!("{member} comes back in generation {generation}"),
        });
        state.start_when_complete();
        Ok(Response::new(ReceiverStream::new(events)))
    }

    async fn report_fault(
        &self,
        request: Request<v1::ReportFaultRequest>,
    ) -> Result<Response<v1::ReportFaultResponse>, Status> {
        let v1::ReportFaultRequest { token, host, description, given, .. } = request.into_inner();
        check_token(&token)?;
        if let Some(v1::GivenOperation { first_seq, tensor, elements, element_type }) = given {
            let verdict = format!("{host} gave {tensor}, {elements} of {element_type} at {first_seq}");
            self.state().hear(format!("{host} reports: {description}"));
            return Ok(Response::new(v1::ReportFaultResponse { verdict }));
        }
        self.state().lose(&host, format!("{host} reports: {description}"));
        Ok(Response::new(v1::ReportFaultResponse::default()))
    }

    async fn leave(&self, request: Request<v1::LeaveRequest>) -> Result<Response<v1::LeaveResponse>, Status> {
        let v1::LeaveRequest { token, host, reason, role, at_end, .. } = request.into_inner();
        check_token(&token)?;
        let member = member(&host, role);
        self.state()
            .lose(&member, format!("{member} leaves{}: {reason}", if at_end { " at its end" } else { "" }));
        Ok(Response::new(v1::LeaveResponse {}))
    }

    async fn hand_in_profile(
        &self,
        _: Request<v1::HandInProfileRequest>,
    ) -> Result<Response<v1::HandInProfileResponse>, Status> {
        Err(Status::unimplemented("no test's call"))
    }

    async fn open_group(
        &self,
        _: Request<v1::OpenGroupRequest>,
    ) -> Result<Response<v1::OpenGroupResponse>, Status> {
        Err(Status::unimplemented("no test's call"))
    }

    async fn get_schedule(
        &self,
        _: Request<v1::GetScheduleRequest>,
    ) -> Result<Response<v1::GetScheduleResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn explain_job(
        &self,
        _: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_switches(
        &self,
        _: Request<v1::ListSwitchesRequest>,
    ) -> Result<Response<v1::ListSwitchesResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn compare_tables(
        &self,
        _: Request<v1::CompareTablesRequest>,
    ) -> Result<Response<v1::CompareTablesResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_links(
        &self,
        _: Request<v1::ListLinksRequest>,
    ) -> Result<Response<v1::ListLinksResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn get_tree(
        &self,
        _: Request<v1::GetTreeRequest>,
    ) -> Result<Response<v1::GetTreeResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_events(
        &self,
        _: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_hosts(
        &self,
        _: Request<v1::ListHostsRequest>,
    ) -> Result<Response<v1::ListHostsResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn get_controller(
        &self,
        _: Request<v1::GetControllerRequest>,
    ) -> Result<Response<v1::GetControllerResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }

    async fn list_jobs(
        &self,
        _: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let waiting_for = self.state().waiting_for.clone();
        let setback = self.state().setback.clone();
        let state = if self.state().over { v1::JobState::Ended } else { v1::JobState::Running };
        // The controller knows only that neither worker waits for a result.
        let members = ["w0", "w1"].map(|host| v1::JobMember {
            host: host.into(),
            role: v1::MemberRole::Worker.into(),
            joined: true,
            progress: Some(v1::JobProgress::default()),
            processes: 1,
        });
        let job = v1::Job {
            name: "star".into(),
            state: state.into(),
            waiting_for,
            setback,
            members: members.into(),
            ..v1::Job::default()
        };
        Ok(Response::new(v1::ListJobsResponse { jobs: vec![job] }))
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

    async fn get_counters(
        &self,
        _: Request<v1::GetCountersRequest>,
    ) -> Result<Response<v1::GetCountersResponse>, Status> {
        Err(Status::unimplemented("not an agent's call"))
    }
}
