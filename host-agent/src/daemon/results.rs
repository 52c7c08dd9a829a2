//! Results of all-reduces and their errors, as the agent gives them to a process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::cast_vec;
use tonic::Status;
use tributary_api::agent::v1;
use tributary_protocol::{StartError, Sums};

use super::account::Account;
use super::member::Member;
use super::messages;
use super::segment::ElementRange;
use crate::error::{AgentError, JobError};

/// The largest tensor, in bytes, that the calling thread copies itself. For such a tensor, waking
/// another thread would take longer than the copy.
const COPIED_AT_ONCE: usize = 64 << 10;

/// Keeps the vector of sums for later all-reduces.
pub(super) fn keep(account: &Account, sums: Sums) {
    match sums {
        Sums::F32(sums) => account.keep(cast_vec(sums)),
        Sums::I32(sums) => account.keep(cast_vec(sums)),
        // Vectors of 64-bit elements have another alignment, so they cannot be kept as vectors of 32-bit elements.
        Sums::F64(_) | Sums::I64(_) => {}
    }
}

/// Returns the answer for an all-reduce without a result, with the reason.
pub(super) async fn no_result(member: &Member, error: AgentError, tensor: String) -> v1::AllReduceResponse {
    if let Some(interrupted) = messages::interrupted(&error) {
        return interrupted;
    }
    let not_started = matches!(error, AgentError::Refused(_) | AgentError::StreamBroken);
    let end = match error {
        AgentError::Ended { .. } => member.wait_for_end().await,
        _ => None,
    };
    let error = match end.as_ref().and_then(|end| end.as_ref().err()).map(Arc::as_ref) {
        // If another member has a wrong sum, this member's sum is also wrong, even if it has not arrived yet.
        Some(JobError::Failed { reason, wrong_sum: true, .. }) => {
            AgentError::Disputed { tensor, verdict: reason.clone() }
        }
        _ => member.explain(error).await,
    };
    messages::failed(
        &agent_status(&error, member.unreachable_for()),
        not_started,
        matches!(end, Some(Ok(()))),
    )
}

/// Runs a copy. A large tensor is copied on a blocking thread, because the copy would delay the
/// threads that all sessions share.
pub(super) async fn copy<T: Send + 'static>(
    place: ElementRange,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match place.bytes() {
        0..=COPIED_AT_ONCE => work(),
        _ => tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?,
    }
}

/// Converts an error to a status of the API.
///
/// `unreachable` is the time for which the controller has been unreachable; `None` if it is reachable.
pub(super) fn agent_status(error: &AgentError, unreachable: Option<Duration>) -> Status {
    let message = error.to_string();
    match error {
        AgentError::Collective(_)
        | AgentError::Withheld { .. }
        | AgentError::Disputed { .. }
        | AgentError::NotCompared { .. } => Status::failed_precondition(message),
        AgentError::Refused(StartError::NoMemory { .. }) => Status::resource_exhausted(message),
        AgentError::Refused(_) => Status::invalid_argument(message),
        AgentError::Deadline { .. } => Status::deadline_exceeded(match unreachable {
            Some(time) => format!("{message}; the controller has been unreachable for {time:.1?}"),
            None => message,
        }),
        AgentError::Ended { .. } | AgentError::Regroup { .. } | AgentError::Detached(_) => {
            Status::aborted(message)
        }
        AgentError::StreamBroken => Status::cancelled(message),
        AgentError::OtherRole { .. }
        | AgentError::Mtu { .. }
        | AgentError::Ports { .. }
        | AgentError::Change { .. }
        | AgentError::NoSecret { .. }
        | AgentError::Config(_)
        | AgentError::Frame(_)
        | AgentError::System { .. }
        | AgentError::UdpPort { .. }
        | AgentError::Link(_) => Status::internal(message),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn an_interface_that_is_too_narrow_is_no_wrong_sum() {
        let status = agent_status(&AgentError::Mtu { needed: 8296, carried: 1500 }, None);
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("8296"), "{status}");
    }
}
