//! Access control by the names in a client's certificate.

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
    /// Names in clients' certificates that may create and end all jobs.
    /// No host of the topology may have such a name. A host with the role of a server also creates jobs, but only jobs
    /// that it serves.
    pub operators: BTreeSet<String>,
}

/// The access policy.
///
/// Every caller with a valid certificate may read. Ending a job requires the job's token or an operator's name.
#[derive(Debug)]
pub(crate) enum Access {
    /// Clients have no certificates and authenticate themselves only by the tokens of jobs.
    Open,
    /// Clients have certificates.
    /// A member acts only for the hosts that its certificate names. Because each job takes slots from all users, only
    /// `operators` may create any job. A host with the role of a server may create the jobs that it serves; a host with
    /// the role of a worker may create none.
    ByName { operators: BTreeSet<String> },
}

impl Access {
    /// Creates the policy for clients with certificates.
    ///
    /// # Errors
    /// [`StartError::OperatorIsHost`]: a host of the topology has an operator's name.
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

    /// Checks that `peer` acts for `host`, where the request itself does not contain the host.
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

/// Returns the names in the caller's certificate.
fn names(peer: Option<&Peer>) -> Result<&Names, Status> {
    let names = peer.and_then(Peer::names);
    names.ok_or_else(|| Status::unauthenticated("no certificate was shown"))
}

/// Logs the refusal of a request and returns its status.
///
/// The log shows the operator that a caller may have tried to impersonate another host.
fn denied(peer: Option<&Peer>, reason: &str) -> Status {
    let address = peer.map(|peer| peer.address().to_string());
    tracing::warn!(address, reason, "denied a request");
    Status::permission_denied(reason)
}
