//! A simulated agent behind a real socket. It has one job, and its sums are this process's own
//! contribution.

mod brake;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use brake::Brake;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_server::{Agent as Calls, AgentServer};
use tributary_api::agent::v1::job_event::Event;
use tributary_api::agent::v1::training_event::Event as TrainingEvent;

/// The number of the job's members; this process is the first.
pub(crate) const MEMBERS: u32 = 3;

pub(crate) struct Agent {
    folder: TempDir,
    brake: Arc<Brake>,
    shared: Arc<Shared>,
}

/// State that a test and its agent share.
#[derive(Default)]
struct Shared {
    /// True while the agent withholds sums.
    holds_sums: watch::Sender<bool>,
    /// True if the process has left the job.
    is_left: watch::Sender<bool>,
}

#[allow(dead_code, reason = "each test has its own idea of an agent")]
impl Agent {
    /// Starts an agent whose sums state these numbers of contributors, one after another.
    pub(crate) async fn start(contributors: [u32; 2]) -> Self {
        let (folder, brake, shared) = (tempfile::tempdir().unwrap(), Arc::default(), Arc::default());
        let agent = Self { folder, brake, shared };
        let listener = UnixListener::bind(agent.socket()).unwrap();
        let service = Service { contributors, segments: Mutex::default(), shared: Arc::clone(&agent.shared) };
        let brake = Arc::clone(&agent.brake);
        let connections = UnixListenerStream::new(listener).map(move |stream| brake.on(stream));
        tokio::spawn(Server::builder().serve_with_incoming(AgentServer::new(service), connections));
        agent
    }

    /// Stops the agent, as SIGSTOP would.
    pub(crate) fn stop(&self) {
        self.brake.set(true);
    }

    /// Lets the agent continue after it was stopped.
    pub(crate) fn go_on(&self) {
        self.brake.set(false);
    }

    /// Withholds sums if `holds` is true. The agent still answers other requests.
    pub(crate) fn hold_sums(&self, holds: bool) {
        self.shared.holds_sums.send_replace(holds);
    }

    /// Waits until the agent has noticed that the process has left the job.
    pub(crate) async fn is_left(&self) {
        self.shared.is_left.subscribe().wait_for(|left| *left).await.unwrap();
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }
}

struct Service {
    contributors: [u32; 2],
    segments: Mutex<u32>,
    shared: Arc<Shared>,
}

type Answer<T> = Result<Response<T>, Status>;

fn not_here<T>() -> Answer<T> {
    Err(Status::unimplemented("no call of these tests"))
}

#[tonic::async_trait]
impl Calls for Service {
    type OpenJobStream = ReceiverStream<Result<v1::JobEvent, Status>>;
    type OpenTrainingStream = ReceiverStream<Result<v1::TrainingEvent, Status>>;
    type AllReduceStream = ReceiverStream<Result<v1::AllReduceResponse, Status>>;

    async fn open_job(&self, _: Request<v1::OpenJobRequest>) -> Answer<Self::OpenJobStream> {
        let (events, stream) = mpsc::channel(1);
        let started = v1::Started { session: vec![1], ranks: (0..MEMBERS).collect(), ..Default::default() };
        let event = v1::JobEvent { event: Some(Event::Started(started)) };
        events.send(Ok(event)).await.map_err(|_| Status::internal("nobody listens"))?;
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            events.closed().await;
            shared.is_left.send_replace(true);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn open_segment(&self, _: Request<v1::OpenSegmentRequest>) -> Answer<v1::OpenSegmentResponse> {
        let mut segments = self.segments.lock().unwrap();
        *segments += 1;
        Ok(Response::new(v1::OpenSegmentResponse { segment: *segments }))
    }

    async fn all_reduce(
        &self,
        requests: Request<Streaming<v1::AllReduceRequest>>,
    ) -> Answer<Self::AllReduceStream> {
        let (answers, stream) = mpsc::channel(1);
        let (mut requests, mut contributors) = (requests.into_inner(), self.contributors.into_iter());
        let mut holds_sums = self.shared.holds_sums.subscribe();
        tokio::spawn(async move {
            let mut number = 0..;
            // The process may cancel the stream.
            while let Ok(Some(request)) = requests.message().await {
                holds_sums.wait_for(|holds| !holds).await.unwrap();
                // All elements except the last are over all members, because one element without some members must be
                // enough for an error.
                let run = |elements, contributors| v1::Run { elements, weight: contributors, contributors };
                let runs = vec![run(request.count - 1, MEMBERS), run(1, contributors.next().unwrap())];
                let (ranks, request) = ((0..MEMBERS).collect(), number.next().unwrap());
                let answer =
                    v1::AllReduceResponse { runs, generation: 1, ranks, request, ..Default::default() };
                if answers.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn close_segment(&self, _: Request<v1::CloseSegmentRequest>) -> Answer<v1::CloseSegmentResponse> {
        not_here()
    }

    async fn hand_in_profile(
        &self,
        _: Request<v1::HandInProfileRequest>,
    ) -> Answer<v1::HandInProfileResponse> {
        not_here()
    }

    async fn close_job(&self, _: Request<v1::CloseJobRequest>) -> Answer<v1::CloseJobResponse> {
        not_here()
    }

    async fn open_training(&self, _: Request<v1::OpenTrainingRequest>) -> Answer<Self::OpenTrainingStream> {
        let (events, stream) = mpsc::channel(2);
        let opened = v1::TrainingOpened { session: vec![1], host: "w0".to_owned() };
        let waiting = v1::Waiting { what: "worker 1".to_owned(), seconds: 2 };
        for event in [TrainingEvent::Opened(opened), TrainingEvent::Waiting(waiting)] {
            let event = v1::TrainingEvent { event: Some(event) };
            events.send(Ok(event)).await.map_err(|_| Status::internal("nobody listens"))?;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            events.closed().await;
            shared.is_left.send_replace(true);
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn begin_training(&self, _: Request<v1::BeginTrainingRequest>) -> Answer<v1::Step> {
        Ok(Response::new(v1::Step::default()))
    }

    /// A step waits for other workers while the agent withholds sums.
    async fn push_gradient(&self, _: Request<v1::PushGradientRequest>) -> Answer<v1::Step> {
        let mut holds_sums = self.shared.holds_sums.subscribe();
        holds_sums.wait_for(|holds| !holds).await.map_err(|_| Status::internal("the test is over"))?;
        Ok(Response::new(v1::Step { iteration: 1, ..v1::Step::default() }))
    }

    async fn push_part(&self, _: Request<v1::PushPartRequest>) -> Answer<v1::PushPartResponse> {
        not_here()
    }

    async fn drop_parts(&self, _: Request<v1::DropPartsRequest>) -> Answer<v1::DropPartsResponse> {
        not_here()
    }

    async fn count_collectives(
        &self,
        _: Request<v1::CountCollectivesRequest>,
    ) -> Answer<v1::CountCollectivesResponse> {
        not_here()
    }

    async fn open_group(&self, _: Request<v1::OpenGroupRequest>) -> Answer<v1::OpenGroupResponse> {
        not_here()
    }

    async fn stats(&self, _: Request<v1::StatsRequest>) -> Answer<v1::StatsResponse> {
        not_here()
    }
}
