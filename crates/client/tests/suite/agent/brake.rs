//! Connections that a test can stop, like the connections of a stopped process.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// While the brake is on, nothing is read from its connections or written to them.
#[derive(Default)]
pub(crate) struct Brake(Mutex<BrakePosition>);

/// The brake's position, and the tasks that wait for its release.
#[derive(Default)]
struct BrakePosition {
    is_on: bool,
    waiting: Vec<Waker>,
}

impl Brake {
    pub(crate) fn set(&self, is_on: bool) {
        let mut state = self.0.lock().unwrap();
        state.is_on = is_on;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Attaches a connection to this brake.
    pub(crate) fn on(self: &Arc<Self>, stream: io::Result<UnixStream>) -> io::Result<Braked> {
        Ok(Braked { stream: stream?, brake: Arc::clone(self) })
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.is_on {
            state.waiting.push(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

pub(crate) struct Braked {
    stream: UnixStream,
    brake: Arc<Brake>,
}

impl Connected for Braked {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Braked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.brake.poll(context));
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Braked {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.brake.poll(context));
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
