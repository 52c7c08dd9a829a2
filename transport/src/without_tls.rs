//! In place of `tls`, without that feature: the same types, so that nobody who only hands them on has to ask, but
//! without values. Nothing here is ever called.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::connection::{Peer, Stream};
use crate::service::Service;

/// With what a client shows who it is, and knows the server: nothing, without the feature `tls`.
#[derive(Debug, Clone)]
pub struct ClientTls(Infallible);

impl ClientTls {
    /// The certificate's last moment, in seconds since 1970.
    pub fn expires(&self) -> Option<u64> {
        match self.0 {}
    }

    pub(crate) fn can_verify(_: &str) -> bool {
        false
    }

    pub(crate) async fn open(&self, _: TcpStream, _: &str) -> io::Result<Box<dyn Stream>> {
        match self.0 {}
    }

    pub(crate) async fn served_expires(&self, _: TcpStream, _: &str) -> io::Result<Option<u64>> {
        match self.0 {}
    }

    pub(crate) fn explain(&self, _: &(dyn Error + 'static), _: Service) -> Option<String> {
        match self.0 {}
    }
}

/// With what a server shows who it is, and knows its clients: nothing, without the feature `tls`.
#[derive(Debug, Clone)]
pub struct ServerTls(Infallible);

impl ServerTls {
    pub(crate) async fn handshake(self, _: TcpStream, _: SocketAddr) -> Option<(Box<dyn Stream>, Peer)> {
        match self.0 {}
    }
}
