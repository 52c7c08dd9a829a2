//! A TCP connection between a host and its controller that a test can cut or stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tributary_transport::Remote;

/// The state of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The line carries bytes.
    Whole,
    /// The line accepts connections but carries no bytes, like a controller that hangs.
    Stopped,
    /// All connections break, and new connections break immediately.
    Cut,
}

/// The line to a controller.
pub(crate) struct Line {
    address: String,
    state: watch::Sender<State>,
    /// The number of connections since the start.
    connections: watch::Receiver<usize>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    condition: Condition,
    /// The number of cuts. A task that checks the line only after its repair notices the cut by this
    /// number.
    cuts: usize,
}

impl Line {
    /// Creates a line to the server at this address.
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (state, now) = watch::channel(State { condition: Condition::Whole, cuts: 0 });
        let (count, connections) = watch::channel(0);
        let server: Arc<str> = server.into();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                count.send_modify(|count| *count += 1);
                tokio::spawn(carry(client, Arc::clone(&server), now.clone()));
            }
        });
        Self { address, state, connections }
    }

    pub(crate) fn set(&self, condition: Condition) {
        self.state.send_modify(|state| {
            state.condition = condition;
            state.cuts += usize::from(condition == Condition::Cut);
        });
    }

    /// Sets the condition, and waits until a host opens a new connection because its old connection has
    /// failed.
    pub(crate) async fn set_and_wait(&mut self, condition: Condition) {
        let before = *self.connections.borrow_and_update();
        self.set(condition);
        self.connections.wait_for(|count| *count > before).await.unwrap();
    }

    pub(crate) fn remote(&self) -> Remote {
        Remote::controller(&self.address, None).unwrap()
    }
}

async fn carry(client: TcpStream, server: Arc<str>, state: watch::Receiver<State>) {
    let mut cut = state.clone();
    let cuts = cut.borrow().cuts;
    let both = async {
        let server = TcpStream::connect(&*server).await.unwrap();
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        tokio::join!(
            copy(from_client, to_server, state.clone()),
            copy(from_server, to_client, state.clone())
        );
    };
    tokio::select! {
        () = both => {}
        _ = cut.wait_for(|state| state.condition == Condition::Cut || state.cuts != cuts) => {}
    }
}

/// Copies bytes in one direction until the sender has ended.
async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if state.wait_for(|state| state.condition == Condition::Whole).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    // This also closes the other end of the connection.
    let _ = tokio::time::timeout(Duration::from_secs(1), to.shutdown()).await;
}
