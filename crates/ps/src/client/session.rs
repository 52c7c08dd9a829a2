//! An open session, and the events for which it waits.

use tokio::sync::{mpsc, watch};
use tonic::{Status, Streaming};
use tributary_api::ps::{ServerMessage, WorkerMessage};

use super::error::ClientError;
use super::groups::Groups;
use crate::changes::Known;

/// The failure of one attempt.
pub(super) enum Trouble {
    /// A failure after which the next attempt may succeed.
    Passing(String),
    Lasting(ClientError),
}

/// The client's end of a session with a server.
pub(super) struct ClientSession {
    pub(super) messages: mpsc::Sender<WorkerMessage>,
    pub(super) told: Streaming<ServerMessage>,
    /// The parameters that the server has sent in this session.
    pub(super) known: Known,
    /// True once the server has sent a step.
    pub(super) good: bool,
}

/// An event that a session waits for.
pub(super) enum Heard {
    Told(Box<Result<Option<ServerMessage>, Status>>),
    Failure(u64, String),
    Released,
}

/// Waits for a message of the server, for the failure of a group, or for another server to release the
/// worker. Cancel safe.
pub(super) async fn hear(
    session: &mut Option<ClientSession>,
    groups: &mut Groups,
    released: &mut Option<&mut watch::Receiver<bool>>,
) -> Heard {
    let told = async {
        match session {
            Some(session) => session.told.message().await,
            None => std::future::pending().await,
        }
    };
    let elsewhere = async {
        let known = match released {
            Some(released) => released.wait_for(|released| *released).await.is_ok(),
            None => false,
        };
        if !known {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        told = told => Heard::Told(Box::new(told)),
        (group, reason) = groups.failure() => Heard::Failure(group, reason),
        () = elsewhere => Heard::Released,
    }
}
