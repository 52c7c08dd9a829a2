//! A worker's stream to a parameter server, through the server itself.
//!
//! The stream has Hello, pushed gradients in codes, and all other messages, in any order. Each input has a
//! separate job. A server has many jobs, because starting a server takes ten times as long as an input. The
//! target checks that the stream ends with a reply or a reason. The job's thread must survive, and have
//! either no parameters or the number of parameters that a worker has sent.

use std::num::{NonZeroU16, NonZeroU64};
use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tributary_api::JobCredentials;
use tributary_api::ps::parameter_server_client::ParameterServerClient;
use tributary_api::ps::worker_message::Message as Said;
use tributary_api::ps::{DropParts, EndParts, Hello, Push, PushPart, Ready, Urge, WorkerMessage};
use tributary_codec::Kind;
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind, ServerError, View};

use crate::finding::sound;
use crate::input::Input;
use crate::{Seed, Target};

/// Number of jobs of a server. When all jobs have been used, another server is started.
const JOBS: usize = 250;
/// The largest number of parameters that a worker may send.
const MOST: u64 = 100;
/// The most messages in one input.
const MESSAGES: usize = 12;
/// A time longer than any input takes.
const PATIENCE: Duration = Duration::from_secs(8);

pub(super) const TARGET: Target = Target {
    name: "training",
    about: "a worker's stream at a parameter server: length and protobuf, up to twelve times",
    max_len: 2048,
    tries: 300,
    run,
    seeds,
};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    sound(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build())
});

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut messages = Vec::new();
    while !input.is_empty() && messages.len() < MESSAGES {
        let len = input.number();
        messages.extend(WorkerMessage::decode(input.take(len)).ok());
    }
    let serving = SERVING.lock().take();
    let serving =
        RUNTIME.block_on(async { sound(timeout(PATIENCE, Serving::talk(serving, messages)).await) });
    *SERVING.lock() = serving;
}

/// The server for the next input.
static SERVING: Mutex<Option<Serving>> = Mutex::new(None);

/// A server, and its jobs that no input has used yet.
struct Serving {
    client: ParameterServerClient<Channel>,
    view: View,
    unused: Vec<String>,
    stop: oneshot::Sender<()>,
    over: JoinHandle<Result<(), ServerError>>,
}

impl Serving {
    async fn start() -> Self {
        let unused: Vec<_> = (0..JOBS).map(|job| format!("digits-{job}")).collect();
        let jobs = unused.iter().map(|job| settings(job)).collect();
        let server = sound(ParameterServer::start(jobs, None, None));
        let view = server.view();
        let listener = sound(TcpListener::bind("127.0.0.1:0").await);
        let address = sound(listener.local_addr());
        let (stop, stopped) = oneshot::channel::<()>();
        let over = tokio::spawn(server.serve(listener, None, async { drop(stopped.await) }));
        let channel = sound(sound(Endpoint::from_shared(format!("http://{address}"))).connect().await);
        Self { client: ParameterServerClient::new(channel), view, unused, stop, over }
    }

    /// Sends a worker's stream to an unused job. Returns the server for the next stream.
    async fn talk(serving: Option<Self>, messages: Vec<WorkerMessage>) -> Option<Self> {
        let mut serving = match serving {
            Some(serving) => serving,
            None => Self::start().await,
        };
        let job = sound(serving.unused.pop().ok_or("a server without a job"));
        let credentials = JobCredentials { job: job.clone(), token: Vec::new() };
        let request = credentials.onto(tokio_stream::iter(messages));
        if let Err(status) = answered(&mut serving.client, request).await {
            assert!(!status.message().is_empty(), "{status}");
            assert!(!matches!(status.code(), Code::Internal | Code::Unknown | Code::Unavailable), "{status}");
        }
        let parameters = sound(serving.view.parameters(&job).await.ok_or("the job's thread has ended"));
        assert!(parameters.len() as u64 <= MOST);
        if serving.unused.is_empty() {
            serving.end().await;
            return None;
        }
        Some(serving)
    }

    async fn end(self) {
        let Self { client, stop, over, .. } = self;
        drop((client, stop));
        sound(sound(over.await));
    }
}

/// Sends a stream, and reads all replies.
async fn answered(
    client: &mut ParameterServerClient<Channel>,
    request: Request<impl Stream<Item = WorkerMessage> + Send + 'static>,
) -> Result<(), Status> {
    let mut answers = client.train(request).await?.into_inner();
    while answers.message().await?.is_some() {}
    Ok(())
}

fn settings(job: &str) -> JobSettings {
    let (one, epoch) = (NonZeroU16::MIN, NonZeroU64::MIN);
    let spec = JobSpec { max_parameters: MOST, ..JobSpec::new(job, one, PolicyKind::A2s, epoch, 0.1) };
    JobSettings { spec, token: None }
}

fn seeds() -> Vec<Seed> {
    const LENGTH: usize = 10;
    let hello = Said::Hello(Hello {
        length: LENGTH as u64,
        initial: [1.5_f32; LENGTH].iter().flat_map(|value| value.to_le_bytes()).collect(),
        ..Hello::default()
    });
    let push = |codec: &str, iteration| {
        let code = sound(sound(codec.parse::<Kind>()).codec(1).encode(&[0.25; LENGTH]));
        Said::Push(Push { iteration, updates: iteration, code })
    };
    let stream = |messages: &[Said]| {
        let mut bytes = Vec::new();
        for message in messages {
            let message = WorkerMessage { message: Some(message.clone()) }.encode_to_vec();
            bytes.extend((message.len() as u16).to_be_bytes());
            bytes.extend(message);
        }
        bytes
    };
    let part = |first: usize, length: usize| {
        let code = sound(Kind::None.codec(1).encode(&[0.5; LENGTH][..length]));
        Said::PushPart(PushPart { first: first as u64, length: length as u64, code })
    };
    let end = Said::EndParts(EndParts { iteration: 0, updates: 0 });
    let parts = [hello.clone(), part(8, 2), Said::DropParts(DropParts {}), part(4, 6), part(0, 4), end];
    let ready = Said::Ready(Ready { iteration: 0, updates: 0 });
    vec![
        ("train".to_owned(), stream(&[hello.clone(), push("none", 0), push("casq-4", 1)])),
        ("urge".to_owned(), stream(&[hello.clone(), Said::Urge(Urge {}), push("f16", 0)])),
        ("ready".to_owned(), stream(&[hello, ready, push("terngrad", 0)])),
        ("parts".to_owned(), stream(&parts)),
        ("without-hello".to_owned(), stream(&[push("none", 0)])),
    ]
}
