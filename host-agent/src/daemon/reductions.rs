//! The all-reduces that a process requests in one stream.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::time::Instant;
use tonic::{Status, Streaming};
use tributary_api::agent::v1;

use super::account::Call;
use super::messages;
use super::results::agent_status;
use super::session::{Session, Sessions};
use crate::error::AgentError;
use crate::worker::StreamPosition;

/// Answers that may wait until the process reads them.
pub(super) const ANSWERS: usize = 16;

pub(super) type Answers = mpsc::Sender<Result<v1::AllReduceResponse, Status>>;

/// Starts the all-reduces of the stream in order, and sends each answer when its all-reduce ends.
/// Returns when the stream ends.
pub(super) async fn serve(
    mut requests: Streaming<v1::AllReduceRequest>,
    sessions: &Sessions,
    answers: &Answers,
) {
    let mut stream = Stream::default();
    // If the stream breaks, no client is left to receive the error.
    while let Ok(Some(request)) = requests.message().await {
        stream.start(sessions, request, answers).await;
    }
}

/// The state of a stream.
#[derive(Default)]
struct Stream {
    position: StreamPosition,
    /// The id of the stream's session, and the session's lock. While the stream holds the lock, the agent
    /// reads no other stream of the session.
    turn: Option<(Vec<u8>, OwnedMutexGuard<()>)>,
    started: u64,
}

impl Stream {
    async fn start(&mut self, sessions: &Sessions, request: v1::AllReduceRequest, answers: &Answers) {
        let (began, number) = (Instant::now(), self.started);
        let position = self.position.at(number);
        self.started += 1;
        let numbered = move |answer: v1::AllReduceResponse| {
            let time = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Ok(v1::AllReduceResponse { request: number, agent_nanoseconds: time, ..answer })
        };
        // If an all-reduce of this stream was not started, no later all-reduce of the stream is started.
        let begun = match position.is_broken() {
            true => Err(agent_status(&AgentError::StreamBroken, None)),
            false => self.begin(sessions, request, position.clone()).await,
        };
        match begun {
            Ok(ended) => {
                let answers = answers.clone();
                tokio::spawn(async move {
                    let (answer, under_way) = ended.await;
                    // The answer is dropped if the client no longer waits for it.
                    let _ = answers.send(numbered(answer)).await;
                    drop(under_way);
                });
            }
            Err(status) => {
                position.break_off();
                let job_ended = self.has_ended(sessions);
                let _ = answers.send(numbered(messages::failed(&status, true, job_ended))).await;
            }
        }
    }

    /// Returns true if the job of this stream's session has ended.
    fn has_ended(&self, sessions: &Sessions) -> bool {
        let session = self.turn.as_ref().and_then(|(id, _)| sessions.find(id).ok());
        session.is_some_and(|session| session.job().is_ok_and(|job| job.member.has_ended()))
    }

    /// Starts an operation as soon as there is room for it. The future yields the answer, and a permit
    /// that the caller drops after it has sent the answer.
    async fn begin(
        &mut self,
        sessions: &Sessions,
        request: v1::AllReduceRequest,
        position: StreamPosition,
    ) -> Result<impl Future<Output = (v1::AllReduceResponse, Call)> + Send + 'static + use<>, Status> {
        let session = self.session(sessions, &request.session).await?;
        let under_way = session.account.begin_operation().await?;
        let memory = (&session.segments, &session.account);
        let ended = session.job()?.start(memory, request, position).await?;
        Ok(async move { (ended.await, under_way) })
    }

    /// Returns the session of a request. The first call waits until all earlier streams of the session
    /// have ended.
    async fn session(&mut self, sessions: &Sessions, id: &[u8]) -> Result<Arc<Session>, Status> {
        let session = sessions.find(id)?;
        match &self.turn {
            Some((own, _)) if own == id => {}
            Some(_) => return Err(Status::invalid_argument("all requests of a stream are one session's")),
            None => self.turn = Some((id.to_vec(), session.job()?.turn().await)),
        }
        Ok(session)
    }
}
