//! A client's description of a server: its address, and how to connect to it.

use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::cause::{carried, innermost};
use crate::connection::Stream;
use crate::error::ConnectError;
use crate::first_read::{DemandsTls, FirstRead};
use crate::service::Service;
use crate::tls::ClientTls;

/// A server with the settings with which its clients connect.
#[derive(Debug, Clone)]
pub struct Remote {
    service: Service,
    /// `host:port`.
    address: String,
    /// The host name or address that the server's certificate must have.
    host: String,
    endpoint: Endpoint,
    tls: Option<ClientTls>,
}

impl Remote {
    /// Describes the controller at `host:port`. Without `tls`, connections are plain text.
    ///
    /// # Errors
    /// [`ConnectError::BadAddress`] if `address` is not `host:port`.
    pub fn controller(address: &str, tls: Option<ClientTls>) -> Result<Self, ConnectError> {
        Self::new(Service::Controller, address, tls)
    }

    /// Describes the parameter server at `host:port`. Without `tls`, connections are plain text.
    ///
    /// # Errors
    /// [`ConnectError::BadAddress`] if `address` is not `host:port`.
    pub fn parameter_server(address: &str, tls: Option<ClientTls>) -> Result<Self, ConnectError> {
        Self::new(Service::ParameterServer, address, tls)
    }

    fn new(service: Service, address: &str, tls: Option<ClientTls>) -> Result<Self, ConnectError> {
        let bad = || ConnectError::BadAddress(address.to_owned());
        let scheme = if tls.is_some() { "https" } else { "http" };
        let uri: Uri = format!("{scheme}://{address}").parse().map_err(|_| bad())?;
        uri.port().ok_or_else(bad)?;
        // The host name of an IPv6 address has no brackets.
        let host = uri.host().ok_or_else(bad)?.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || tls.as_ref().is_some_and(|_| !ClientTls::can_verify(host)) {
            return Err(bad());
        }
        let host = host.to_owned();
        let patience = service.patience();
        let endpoint = Endpoint::from(uri)
            .connect_timeout(patience.connect)
            .http2_keep_alive_interval(patience.silence)
            .keep_alive_timeout(patience.answer);
        Ok(Self { service, address: address.to_owned(), host, endpoint, tls })
    }

    /// Returns the server's address, `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the TLS identity of its clients; `None` if connections are plain text.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.tls.as_ref()
    }

    /// Opens a connection to the server. Both sides have accepted each other when it returns.
    ///
    /// # Errors
    /// [`ConnectError`] if the server does not answer, or if one side does not trust the other.
    pub async fn connect(&self) -> Result<Channel, ConnectError> {
        let (tell, first_read) = oneshot::channel();
        // Only the first connection reports its first read, because the channel handles later connections itself.
        let tell = Arc::new(Mutex::new(Some(tell)));
        let dial = self.clone();
        let connector = service_fn(move |_: Uri| {
            let dial = dial.clone();
            let tell = tell.lock().take();
            async move { Ok::<_, io::Error>(TokioIo::new(FirstRead::new(dial.stream().await?, tell))) }
        });
        let channel = self.endpoint.connect_with_connector(connector).await;
        let channel = channel.map_err(|error| self.explain(&error))?;
        let patience = self.service.patience().connect;
        match timeout(patience, first_read).await {
            Ok(Ok(Ok(()))) => Ok(channel),
            Ok(Ok(Err(error))) => Err(self.explain(&error)),
            Ok(Err(_)) => {
                Err(self.unreachable("it closes the connection, as it does where it has too many".to_owned()))
            }
            Err(_) => Err(self.unreachable(format!("it has said nothing for {patience:?}"))),
        }
    }

    async fn stream(&self) -> io::Result<Box<dyn Stream>> {
        let stream = self.dial().await?;
        stream.set_nodelay(true)?;
        Ok(match &self.tls {
            None => Box::new(stream),
            Some(tls) => tls.open(stream, &self.host).await?,
        })
    }

    /// Opens a TCP connection. Reports a problem with the host name separately from a problem with the
    /// server.
    async fn dial(&self) -> io::Result<TcpStream> {
        let patience = self.service.patience().connect / 2;
        let unresolved = |reason: String| {
            let host = self.address.rsplit_once(':').map_or(&*self.address, |(host, _)| host);
            io::Error::other(format!("the name {host:?} leads to no address: {reason}"))
        };
        let addresses: Vec<_> = match timeout(patience, lookup_host(&self.address)).await {
            Ok(Ok(addresses)) => addresses.collect(),
            Ok(Err(error)) => return Err(unresolved(error.to_string())),
            Err(_) => return Err(unresolved(format!("it was looked up for {patience:?} in vain"))),
        };
        TcpStream::connect(&addresses[..]).await
    }

    /// Returns the time at which the server's present certificate expires, in seconds since 1970; `None`
    /// in plain text. Opens a separate connection for this.
    ///
    /// # Errors
    /// [`ConnectError`] if the server does not answer, or if its certificate cannot be trusted.
    pub async fn served_certificate_expires(&self) -> Result<Option<u64>, ConnectError> {
        let Some(tls) = &self.tls else { return Ok(None) };
        let patience = self.service.patience().connect;
        let shown = async { tls.served_expires(self.dial().await?, &self.host).await };
        match timeout(patience, shown).await {
            Ok(shown) => shown.map_err(|error| self.explain(&error)),
            Err(_) => Err(self.unreachable(format!("it has said nothing for {patience:?}"))),
        }
    }

    fn explain(&self, error: &(dyn std::error::Error + 'static)) -> ConnectError {
        let no_trust =
            |reason| ConnectError::NoTrust { service: self.service, address: self.address.clone(), reason };
        if let Some(reason) = self.tls.as_ref().and_then(|tls| tls.explain(error, self.service)) {
            return no_trust(reason);
        }
        if let Some(demand) = carried::<DemandsTls>(error) {
            return no_trust(demand.to_string());
        }
        let reason = innermost(error);
        match is_lack_of_descriptors(error) {
            true => {
                ConnectError::NoDescriptor { service: self.service, address: self.address.clone(), reason }
            }
            false => self.unreachable(reason),
        }
    }

    fn unreachable(&self, reason: String) -> ConnectError {
        ConnectError::Unreachable { service: self.service, address: self.address.clone(), reason }
    }
}

/// Returns true if this process or its machine has no file descriptor left.
fn is_lack_of_descriptors(error: &(dyn std::error::Error + 'static)) -> bool {
    let errno = carried::<io::Error>(error).and_then(Errno::from_io_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for good in ["127.0.0.1:29810", "controller.example:1", "[::1]:29810", "gpu_0:1"] {
            assert_eq!(Remote::controller(good, None).unwrap().address(), good);
        }
        for bad in ["no address", "127.0.0.1", "", ":1", "host:port", "http://host:1"] {
            assert!(Remote::controller(bad, None).unwrap_err().to_string().contains("HOST:PORT"), "{bad:?}");
        }
    }
}
