//! Access control by the names in the certificate that a caller shows.

use std::collections::BTreeSet;

use tonic::{Request, Status};
use tributary_topology::{Node, Role, Topology};
use tributary_transport::{Names, Peer, ServerTls};

use crate::error::StartError;
use crate::quotas::LOCAL;

/// TLS settings with which a controller and its clients authenticate each other.
#[derive(Debug, Clone)]
pub struct ControllerTls {
    /// The controller's certificate, and the CA that signs its clients' certificates.
    pub server: ServerTls,
    /// Names, in clients' certificates, that may create and end all jobs.
    /// No host of the topology may have one of them: hosts that act as servers create jobs, too, but only those that
    /// they serve.
    pub operators: BTreeSet<String>,
}

/// The access policy.
///
/// Every caller with a certificate may read; ending a job takes its token, or an operator's name.
#[derive(Debug)]
pub(crate) enum Access {
    /// Callers show only tokens.
    Open,
    /// Callers show certificates.
    /// A member acts only for the hosts that its certificate names. Since a job takes slots from everyone, only
    /// `operators` create any job; a host with the role of a server creates the jobs that it is to serve. A host that
    /// trains creates none.
    ByName { operators: BTreeSet<String> },
}

impl Access {
    /// # Errors
    /// [`StartError::OperatorIsHost`].
    pub(crate) fn by_name(operators: BTreeSet<String>, topology: &Topology) -> Result<Self, StartError> {
        let is_host =
            |name: &&String| topology.find(name).and_then(|key| topology.get(key)?.host()).is_some();
        match operators.iter().find(is_host) {
            Some(name) => Err(StartError::OperatorIsHost(name.clone())),
            None => Ok(Self::ByName { operators }),
        }
    }

    /// Checks that the caller acts for `host`.
    pub(crate) fn check_host<T>(
        &self,
        request: &Request<T>,
        host: impl FnOnce(&T) -> &str,
    ) -> Result<(), Status> {
        self.check_peer(request.extensions().get::<Peer>(), host(request.get_ref()))
    }

    /// Like [`check_host`](Self::check_host), for a caller that only says later which host it acts for.
    pub(crate) fn check_peer(&self, peer: Option<&Peer>, host: &str) -> Result<(), Status> {
        let Self::ByName { .. } = self else { return Ok(()) };
        names(peer)?.check_host(host).map_err(|error| denied(peer, &error.to_string()))
    }

    /// Checks that the caller may create a job whose aggregation server is `server`;
    /// returns the creator's name.
    pub(crate) fn check_creator<T>(&self, request: &Request<T>, server: &Node) -> Result<String, Status> {
        let Self::ByName { operators } = self else { return Ok(LOCAL.to_owned()) };
        let names = names(peer_of(request))?;
        let serves = server.host().is_some_and(|host| host.role == Some(Role::Server));
        let creators = operators.iter().chain(serves.then_some(&server.name));
        if let Some(creator) = creators.clone().find(|creator| names.contains(creator)) {
            return Ok(creator.clone());
        }
        let (creators, server) = (creators.cloned().collect::<Names>(), &server.name);
        Err(denied(
            peer_of(request),
            &format!(
                "the certificate that was shown is for {names}, and a job that {server:?} serves is created with one \
                 for {creators} only"
            ),
        ))
    }

    /// Returns true if the caller may end a job without its token.
    pub(crate) fn is_operator<T>(&self, request: &Request<T>) -> bool {
        let Self::ByName { operators } = self else { return false };
        names(peer_of(request)).is_ok_and(|names| operators.iter().any(|operator| names.contains(operator)))
    }
}

fn peer_of<T>(request: &Request<T>) -> Option<&Peer> {
    request.extensions().get()
}

/// The names in the caller's certificate.
fn names(peer: Option<&Peer>) -> Result<&Names, Status> {
    let names = peer.and_then(Peer::names);
    names.ok_or_else(|| Status::unauthenticated("no certificate was shown"))
}

/// Refuses a request, and logs it.
///
/// An attempt to impersonate another host concerns the controller's operator, too.
fn denied(peer: Option<&Peer>, reason: &str) -> Status {
    let address = peer.map(|peer| peer.address().to_string());
    tracing::warn!(address, reason, "denied a request");
    Status::permission_denied(reason)
}
