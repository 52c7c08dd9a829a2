//! A process that uses its agent's API without the client's checks.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tributary_api::agent::{SegmentName, v1};
use v1::agent_client::AgentClient;
use v1::job_event::Event;

/// A file in shared memory. Dropping this value removes it.
pub(crate) struct File {
    name: SegmentName,
    file: fs::File,
}

impl File {
    /// Creates a file with memory for all of its bytes.
    pub(crate) fn of(bytes: u64) -> Self {
        let made = Self::sparse(0);
        fs::write(made.name.path(), vec![0; usize::try_from(bytes).unwrap()]).unwrap();
        made
    }

    /// Creates a file without any memory.
    pub(crate) fn sparse(bytes: u64) -> Self {
        let name = SegmentName::new(rand::random());
        let file = fs::File::create_new(name.path()).unwrap();
        file.lock().unwrap();
        file.set_len(bytes).unwrap();
        Self { name, file }
    }

    pub(crate) fn shrink_to(&self, bytes: u64) {
        self.file.set_len(bytes).unwrap();
    }

    /// Leaves the file in the state of a file whose process has ended.
    pub(crate) fn let_go(&self) {
        self.file.unlock().unwrap();
    }

    pub(crate) fn has_name(&self) -> bool {
        self.file.metadata().unwrap().nlink() > 0
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.metadata().unwrap().size()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.has_name() {
            fs::remove_file(self.name.path()).unwrap();
        }
    }
}

/// A session and its connection.
pub(crate) struct Process {
    client: AgentClient<Channel>,
    session: Vec<u8>,
    /// The listener of a training's silent server.
    server: TcpListener,
    connected: Vec<TcpStream>,
    _events: Events,
}

/// The stream of events, which keeps the session alive.
#[allow(dead_code, reason = "to be held")]
enum Events {
    Job(Streaming<v1::JobEvent>),
    Training(Streaming<v1::TrainingEvent>),
}

async fn connect(socket: &Path) -> Result<AgentClient<Channel>, Status> {
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    let channel = endpoint.connect().await.map_err(|error| Status::from_error(Box::new(error)))?;
    Ok(AgentClient::new(channel))
}

impl Process {
    /// Joins the job "star".
    pub(crate) async fn join(socket: &Path, token: &[u8]) -> Result<Self, Status> {
        let request = v1::OpenJobRequest { job: "star".into(), token: token.into(), ..Default::default() };
        Self::join_as(socket, request).await
    }

    pub(crate) async fn join_as(socket: &Path, request: v1::OpenJobRequest) -> Result<Self, Status> {
        let mut client = connect(socket).await?;
        let mut events = client.open_job(request).await?.into_inner();
        let Some(Event::Started(started)) = events.message().await?.unwrap().event else {
            panic!("no start")
        };
        Ok(Self::new(client, started.session, server().await, Events::Job(events)))
    }

    /// Opens a training with a server that accepts connections and sends nothing.
    pub(crate) async fn train(socket: &Path) -> Result<Self, Status> {
        Self::train_on(connect(socket).await?, server().await, v1::OpenTrainingRequest::default()).await
    }

    pub(crate) async fn train_as(socket: &Path, request: v1::OpenTrainingRequest) -> Result<Self, Status> {
        Self::train_on(connect(socket).await?, server().await, request).await
    }

    /// Opens another training over the same connection.
    pub(crate) async fn another(&self) -> Result<Self, Status> {
        Self::train_on(self.client.clone(), server().await, v1::OpenTrainingRequest::default()).await
    }

    /// Opens a training with the servers in `request`, or with the silent server if there are none.
    async fn train_on(
        mut client: AgentClient<Channel>,
        server: TcpListener,
        mut request: v1::OpenTrainingRequest,
    ) -> Result<Self, Status> {
        if request.servers.is_empty() {
            request.servers = vec![server.local_addr().unwrap().to_string()];
        }
        let mut events = client.open_training(request).await?.into_inner();
        let event = events.message().await?.unwrap().event;
        let Some(v1::training_event::Event::Opened(opened)) = event else { panic!("{event:?}") };
        Ok(Self::new(client, opened.session, server, Events::Training(events)))
    }

    fn new(client: AgentClient<Channel>, session: Vec<u8>, server: TcpListener, events: Events) -> Self {
        Self { client, session, server, connected: Vec::new(), _events: events }
    }

    /// Uses the session of another process from now on.
    pub(crate) fn take_session_of(&mut self, other: &Self) {
        self.session.clone_from(&other.session);
    }

    pub(crate) async fn open(&mut self, file: &File, bytes: u64) -> Result<u32, Status> {
        let (session, name) = (self.session.clone(), file.name.to_string());
        let request = v1::OpenSegmentRequest { session, name, bytes };
        Ok(self.client.open_segment(request).await?.into_inner().segment)
    }

    pub(crate) async fn close(&mut self, segment: u32) -> Result<(), Status> {
        let request = v1::CloseSegmentRequest { session: self.session.clone(), segment };
        self.client.close_segment(request).await.map(drop)
    }

    /// Reduces the first `count` f32 of the segment.
    pub(crate) async fn reduce(&mut self, segment: u32, count: u64) -> Result<v1::AllReduceResponse, Status> {
        self.reduce_as(segment, count, "unnamed").await
    }

    pub(crate) async fn reduce_as(
        &mut self,
        segment: u32,
        count: u64,
        name: &str,
    ) -> Result<v1::AllReduceResponse, Status> {
        let request = self.reduction(segment, count, name);
        one(self.client.clone(), request).await
    }

    /// Reduces several ranges of a segment in one stream. Each range is an offset and a count. Returns
    /// the answers by request number.
    pub(crate) async fn reduce_all(
        &mut self,
        segment: u32,
        stretches: &[(u64, u64)],
    ) -> BTreeMap<u64, Result<v1::AllReduceResponse, Status>> {
        let request = |(offset, count): &(u64, u64)| v1::AllReduceRequest {
            offset: *offset,
            ..self.reduction(segment, *count, "unnamed")
        };
        let requests: Vec<_> = stretches.iter().map(request).collect();
        all(self.client.clone(), requests).await.unwrap()
    }

    /// Reduces in a background task.
    pub(crate) fn spawn_reduce(
        &self,
        segment: u32,
        count: u64,
    ) -> JoinHandle<Result<v1::AllReduceResponse, Status>> {
        let request = self.reduction(segment, count, "unnamed");
        tokio::spawn(one(self.client.clone(), request))
    }

    fn reduction(&self, segment: u32, count: u64, name: &str) -> v1::AllReduceRequest {
        v1::AllReduceRequest {
            session: self.session.clone(),
            segment,
            offset: 0,
            element_type: v1::ElementType::F32.into(),
            count,
            weight: 1,
            name: name.to_owned(),
            ..v1::AllReduceRequest::default()
        }
    }

    /// Begins the training with `count` parameters.
    pub(crate) async fn begin(&mut self, segment: u32, count: u64) -> Result<v1::Step, Status> {
        let parameters = Some(v1::Values { segment, offset: 0, count });
        let request = v1::BeginTrainingRequest { session: self.session.clone(), parameters };
        Ok(self.client.begin_training(request).await?.into_inner())
    }

    /// Begins the training in a background task.
    pub(crate) fn spawn_begin(&self, segment: u32, count: u64) -> JoinHandle<Result<v1::Step, Status>> {
        let parameters = Some(v1::Values { segment, offset: 0, count });
        let request = v1::BeginTrainingRequest { session: self.session.clone(), parameters };
        let mut client = self.client.clone();
        tokio::spawn(async move { Ok(client.begin_training(request).await?.into_inner()) })
    }

    /// Begins the training. Returns `None` when the agent waits for the silent server, or the refusal.
    pub(crate) async fn begin_and_wait(&mut self, segment: u32, count: u64) -> Option<Status> {
        let parameters = Some(v1::Values { segment, offset: 0, count });
        let request = v1::BeginTrainingRequest { session: self.session.clone(), parameters };
        tokio::select! {
            refused = self.client.begin_training(request) => Some(refused.unwrap_err()),
            connected = self.server.accept() => {
                self.connected.push(connected.unwrap().0);
                None
            }
        }
    }
}

/// Runs an all-reduce in its own stream.
async fn one(
    client: AgentClient<Channel>,
    request: v1::AllReduceRequest,
) -> Result<v1::AllReduceResponse, Status> {
    all(client, vec![request]).await?.remove(&0).unwrap()
}

/// Returns the answers to the requests of one stream.
async fn all(
    mut client: AgentClient<Channel>,
    requests: Vec<v1::AllReduceRequest>,
) -> Result<BTreeMap<u64, Result<v1::AllReduceResponse, Status>>, Status> {
    let mut answers = client.all_reduce(tokio_stream::iter(requests)).await?.into_inner();
    let mut said = BTreeMap::new();
    while let Some(mut answer) = answers.message().await? {
        let failed =
            |failure: v1::Failure| Status::new(Code::from(failure.code.cast_signed()), failure.message);
        let (number, failure) = (answer.request, answer.failure.take());
        said.insert(number, failure.map_or(Ok(answer), |failure| Err(failed(failure))));
    }
    Ok(said)
}

async fn server() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// Checks that the outcome is a refusal with this code and word.
pub(crate) fn refused<T>(outcome: Result<T, Status>, code: Code, word: &str) {
    let Err(status) = outcome else { panic!("it was not refused for {word}") };
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(word), "{status}");
}
