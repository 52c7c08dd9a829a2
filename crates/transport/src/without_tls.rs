//! Replaces `tls` without that feature: the same types, so that code that only passes them on need not
//! check the feature, but without values. Nothing here is ever called.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::connection::{Peer, Stream};
use crate::service::Service;

/// A client's TLS identity; without the feature `tls` there is none.
#[derive(Debug, Clone)]
pub struct ClientTls(Infallible);

impl ClientTls {
    /// When the certificate expires, in seconds since 1970.
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

/// A server's TLS identity; without the feature `tls` there is none.
#[derive(Debug, Clone)]
pub struct ServerTls(Infallible);

impl ServerTls {
    pub(crate) async fn handshake(self, _: TcpStream, _: SocketAddr) -> Option<(Box<dyn Stream>, Peer)> {
        match self.0 {}
    }
}
