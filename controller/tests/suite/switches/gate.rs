//! A proxy to a switch that can stop forwarding without closing connections, as when a machine loses
//! power.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards bytes between its own address and the switch's address while it is open.
pub struct Gate {
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Gate {
    pub async fn before(switch: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, state) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(switch).await else { continue };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::spawn(pass(near_in, far_out, state.clone()));
                tokio::spawn(pass(far_in, near_out, state.clone()));
            }
        });
        Self { address, open }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens or closes the gate. Delayed bytes arrive after the gate is open again.
    pub fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut open: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
