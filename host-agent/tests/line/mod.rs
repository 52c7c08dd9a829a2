//! A TCP connection between a host and its controller that can be cut and stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tributary_transport::Remote;

/// What a line does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It carries bytes.
    Whole,
    /// Connections are accepted, and nothing comes through: as with a controller that hangs.
    Stopped,
    /// All connections break, and new ones at once.
    Cut,
}

/// The way to a controller.
pub(crate) struct Line {
    address: String,
    condition: watch::Sender<Condition>,
}

impl Line {
    /// A line to the server at this address.
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (condition, now) = watch::channel(Condition::Whole);
        let server: Arc<str> = server.into();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(client, Arc::clone(&server), now.clone()));
            }
        });
        Self { address, condition }
    }

    pub(crate) fn set(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::controller(&self.address, None).unwrap()
    }
}

async fn carry(client: TcpStream, server: Arc<str>, condition: watch::Receiver<Condition>) {
    let mut cut = condition.clone();
    let both = async {
        let server = TcpStream::connect(&*server).await.unwrap();
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::join!(
            copy(from_client, to_server, condition.clone()),
            copy(from_server, to_client, condition.clone())
        );
    };
    tokio::select! {
        () = both => {}
        _ = cut.wait_for(|condition| *condition == Condition::Cut) => {}
    }
}

/// Carries bytes one way until there are no more.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut condition: watch::Receiver<Condition>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if condition.wait_for(|condition| *condition == Condition::Whole).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    // Whoever waits at the other end hears of it.
    let _ = tokio::time::timeout(Duration::from_secs(1), to.shutdown()).await;
}
