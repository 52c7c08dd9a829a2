//! Replaces the module `tls` if the feature `tls` is off.
//! The types are the same but have no values, so that code that only passes them on need not check the feature. No
//! function here is ever called.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::connection::{Peer, Stream};
use crate::service::Service;

/// A client's TLS identity. Without the feature `tls`, it has no values.
#[derive(Debug, Clone)]
pub struct ClientTls(Infallible);

impl ClientTls {
    /// Returns the time at which the certificate expires, in seconds since 1970.
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

/// A server's TLS identity. Without the feature `tls`, it has no values.
#[derive(Debug, Clone)]
pub struct ServerTls(Infallible);

impl ServerTls {
    pub(crate) async fn handshake(self, _: TcpStream, _: SocketAddr) -> Option<(Box<dyn Stream>, Peer)> {
        match self.0 {}
    }
}
