//! Separate limits for small and large requests: most requests are small, and a few are large.

use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{BoxFuture, Service};

/// The size class of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Most requests.
    Small,
    /// The few large requests.
    Large,
}

type Sort = dyn Fn(&Request<Body>) -> Result<Size, Status> + Send + Sync;

/// One service with two limits, for small and for large requests. The class of a request is
/// determined before its message is read.
#[derive(Clone)]
pub struct BySize<S> {
    small: S,
    large: S,
    sort: Arc<Sort>,
}

impl<S> BySize<S> {
    /// Creates the service. `sort` determines which of both services answers a request; if it returns an
    /// error, the error is the answer.
    pub fn new(
        small: S,
        large: S,
        sort: impl Fn(&Request<Body>) -> Result<Size, Status> + Send + Sync + 'static,
    ) -> Self {
        Self { small, large, sort: Arc::new(sort) }
    }
}

impl<S: fmt::Debug> fmt::Debug for BySize<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BySize")
            .field("small", &self.small)
            .field("large", &self.large)
            .finish_non_exhaustive()
    }
}

impl<S> Service<Request<Body>> for BySize<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        match self.small.poll_ready(context) {
            Poll::Ready(Ok(())) => self.large.poll_ready(context),
            other => other,
        }
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match (self.sort)(&request) {
            Ok(Size::Small) => Box::pin(self.small.call(request)),
            Ok(Size::Large) => Box::pin(self.large.call(request)),
            Err(status) => Box::pin(ready(Ok(status.into_http()))),
        }
    }
}

/// Returns the method that a request calls; `None` if the request is not for the service `name`.
pub fn method<'r>(request: &'r Request<Body>, name: &str) -> Option<&'r str> {
    request.uri().path().strip_prefix('/')?.strip_prefix(name)?.strip_prefix('/')
}
