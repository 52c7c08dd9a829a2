//! A session's messages to its worker. Parameters are encoded if the worker has requested a codec.

use tokio::sync::mpsc;
use tonic::Status;
use tributary_api::ps::server_message::Message;
use tributary_api::ps::{ServerMessage, Step};
use tributary_codec::Kind;

use crate::changes::{Change, Sent};
use crate::values;

/// The number of messages that may wait to be encoded. Only one of them is a step, because a worker has
/// one step at a time.
const WAITING: usize = 8;

type Reply = Result<ServerMessage, Status>;

/// Returns the codec that a worker has requested.
///
/// # Errors
/// The codec does not exist, or it cannot encode parameters.
pub(super) fn codec(name: &str) -> Result<Kind, Status> {
    if name.is_empty() {
        return Ok(Kind::None);
    }
    let kind: Kind =
        name.parse().map_err(|error| Status::invalid_argument(format!("the parameters' codec: {error}")))?;
    if kind.needs_agreement() {
        let said = format!("{kind} is for gradients that a fabric aggregates, and not for parameters");
        return Err(Status::invalid_argument(said));
    }
    Ok(kind)
}

/// Returns a channel for a job's messages to a session. A task encodes the parameters and forwards the
/// messages to `replies`. The task ends when either side is closed.
pub(super) fn encoded(kind: Kind, seed: u64, replies: mpsc::Sender<Reply>) -> mpsc::Sender<Reply> {
    if kind == Kind::None {
        return replies;
    }
    let (sender, mut receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut sent = Sent::new(kind, seed);
        while let Some(reply) = receiver.recv().await {
            let reply = match reply {
                Ok(ServerMessage { message: Some(Message::Step(step)) }) => {
                    // The encoding runs on a blocking thread, because a large model would delay the threads
                    // that all sessions share.
                    let encoded = tokio::task::spawn_blocking(move || {
                        let step = encode(&mut sent, step);
                        (sent, step)
                    });
                    let Ok((returned, step)) = encoded.await else { return };
                    sent = returned;
                    Ok(ServerMessage { message: Some(Message::Step(step)) })
                }
                other => other,
            };
            if replies.send(reply).await.is_err() {
                return;
            }
        }
    });
    sender
}

fn encode(sent: &mut Sent, step: Step) -> Step {
    // The job has serialized the parameters, so the bytes are valid.
    let parameters = values::decode(&step.parameters).unwrap_or_default();
    match sent.next(parameters) {
        Change::Whole(_) => step,
        Change::Code(code) => Step { parameters: Vec::new(), change: code, ..step },
    }
}
