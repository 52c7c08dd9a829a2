//! Processes on this host.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::UCred;
use tonic::Request;
use tonic::transport::server::UdsConnectInfo;

/// The process that has opened a connection to this agent. If the process ends, its connection stays
/// open as long as a child process that it has forked holds it.
#[derive(Debug)]
pub(crate) struct Process(Option<AsyncFd<OwnedFd>>);

impl Process {
    /// Returns the process at the other end of a request's connection. Must be called in a tokio runtime.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        // The kernel reports 0 for a process in a PID namespace that is invisible here.
        let pid = credentials(request).and_then(|credentials| Pid::from_raw(credentials.pid()?));
        let descriptor = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::NONBLOCK).ok());
        #[allow(unsafe_code, reason = "no safe interface has it")]
        let registered = descriptor.and_then(|descriptor| {
            // SAFETY: an `OwnedFd` is open, and stays the same descriptor, until it is dropped with the `AsyncFd` that
            // owns it.
            unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }.ok()
        });
        Self(registered)
    }

    /// Waits until the process has ended. Never returns if the kernel does not report the end.
    pub(crate) async fn ended(&self) {
        match &self.0 {
            // The descriptor becomes readable when the process ends.
            Some(descriptor) if descriptor.readable().await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }
}

/// Returns the user and the process that opened a request's connection; `None` if the kernel does not
/// report them.
pub(crate) fn credentials<T>(request: &Request<T>) -> Option<UCred> {
    request.extensions().get::<UdsConnectInfo>()?.peer_cred
}
