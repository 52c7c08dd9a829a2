use std::fmt;

use prost::Message;
use thiserror::Error;
use tonic::Status;

use crate::google::rpc::{self, Code};
use crate::p4::v1 as message;

/// An error between a controller and a switch. Every variant names the switch.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SessionError {
    /// The address is not of the form `host:port`.
    #[error("switch {switch}: {address} is not an address of the form host:port: {reason}")]
    BadAddress {
        /// The switch's name.
        switch: String,
        /// The address given.
        address: String,
        /// The problem with the address.
        reason: String,
    },
    /// The address did not answer in time. The switch may be down, or its P4Runtime server has
    /// another address.
    #[error("switch {switch}: no answer from {address} in time: {reason}")]
    Unreachable {
        /// The switch's name.
        switch: String,
        /// The address of the switch.
        address: String,
        /// The outcome of the last attempt.
        reason: String,
        /// True if the machine refused the connection, so the switch is not running.
        refused: bool,
    },
    /// The switch refused a request.
    #[error("switch {switch} refused {what}: {code}: {reason}", code = code.as_str_name())]
    Refused {
        /// The switch's name.
        switch: String,
        /// The name of the request.
        what: &'static str,
        /// The gRPC status code.
        code: Code,
        /// The switch's message.
        reason: String,
    },
    /// The switch refused some updates of a Write. It carried out the others.
    #[error("switch {switch} refused {} of {total} updates: {}", failures.len(), Listed(failures))]
    Write {
        /// The switch's name.
        switch: String,
        /// Number of updates in the Write.
        total: usize,
        /// The updates that failed, in order.
        failures: Vec<UpdateFailure>,
    },
    /// The switch does not answer, although the connection is open. It hangs, or is extremely busy.
    #[error("switch {switch} has not answered {what} within {seconds} s")]
    NoAnswer {
        /// The switch's name.
        switch: String,
        /// The name of the request.
        what: &'static str,
        /// Seconds for which the controller has waited.
        seconds: u64,
    },
    /// The session has ended. The controller must connect again.
    #[error("switch {switch}: the session has ended: {reason}")]
    Ended {
        /// The switch's name.
        switch: String,
        /// The reason for the end.
        reason: String,
    },
}

/// The reason why one update of a Write failed.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateFailure {
    /// The index of the update in the Write, from 0.
    pub index: usize,
    /// The gRPC status code.
    pub code: Code,
    /// The switch's message.
    pub reason: String,
}

impl fmt::Display for UpdateFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "update {}: {}: {}", self.index, self.code.as_str_name(), self.reason)
    }
}

/// Displays only the first few failures, because a thousand lines do not help the user.
struct Listed<'a>(&'a [UpdateFailure]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let shown: Vec<_> = self.0.iter().take(SHOWN).map(ToString::to_string).collect();
        f.write_str(&shown.join("; "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl SessionError {
    /// Returns the gRPC code of a refusal; `None` for other errors.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Makes the error of a failed call. It distinguishes a broken connection from a refusal.
    pub(super) fn from_status(switch: &str, what: &'static str, status: &Status) -> Self {
        let switch = switch.to_owned();
        if is_transport(status) {
            return Self::Ended { switch, reason: words(status) };
        }
        Self::Refused { switch, what, code: code_of(status), reason: words(status) }
    }
}

/// Returns true if the connection failed; false if the switch answered with an error.
pub(super) fn is_transport(status: &Status) -> bool {
    let caused_here = std::error::Error::source(status).is_some();
    status.code() == tonic::Code::Unavailable || (caused_here && status.code() == tonic::Code::Unknown)
}

pub(super) fn code_of(status: &Status) -> Code {
    Code::try_from(i32::from(status.code())).unwrap_or(Code::Unknown)
}

/// Returns the status's message, with its cause if the connection broke.
pub(super) fn words(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Returns the failed updates of a Write of `count` updates.
///
/// The status of such a Write has one [`message::Error`] for each update. `None` means that the
/// Write failed as a whole; the status then gives the reason.
pub(super) fn update_failures(status: &Status, count: usize) -> Option<Vec<UpdateFailure>> {
    let details = rpc::Status::decode(status.details()).ok()?.details;
    if details.len() != count || count == 0 {
        return None;
    }
    let mut failures = Vec::new();
    for (index, detail) in details.iter().enumerate() {
        let error: message::Error = detail.to_msg().ok()?;
        let code = Code::try_from(error.canonical_code).unwrap_or(Code::Unknown);
        if code != Code::Ok {
            failures.push(UpdateFailure { index, code, reason: error.message });
        }
    }
    Some(failures)
}

#[cfg(test)]
mod tests {
    use prost_types::Any;

    use super::*;

    fn reported(codes: &[Code]) -> Status {
        let details = codes
            .iter()
            .map(|&code| message::Error {
                canonical_code: code.into(),
                message: "so".to_owned(),
                ..Default::default()
            })
            .map(|error| Any::from_msg(&error).unwrap())
            .collect();
        let status = rpc::Status { code: Code::Unknown.into(), message: String::new(), details };
        Status::with_details(tonic::Code::Unknown, "", status.encode_to_vec().into())
    }

    #[test]
    fn a_batch_is_told_update_by_update() {
        let status = reported(&[Code::Ok, Code::AlreadyExists, Code::Ok, Code::NotFound]);
        let failures = update_failures(&status, 4).unwrap();
        let told: Vec<_> = failures.iter().map(|failure| (failure.index, failure.code)).collect();
        assert_eq!(told, [(1, Code::AlreadyExists), (3, Code::NotFound)]);
        let error = SessionError::Write { switch: "s1".to_owned(), total: 4, failures };
        assert_eq!(
            error.to_string(),
            "switch s1 refused 2 of 4 updates: update 1: ALREADY_EXISTS: so; update 3: NOT_FOUND: so"
        );
    }

    #[test]
    fn details_that_do_not_cover_the_batch_are_not_believed() {
        assert_eq!(update_failures(&reported(&[Code::NotFound]), 2), None);
        assert_eq!(update_failures(&Status::unknown("out of order"), 1), None);
        let garbage = Status::with_details(tonic::Code::Unknown, "", vec![0xff; 9].into());
        assert_eq!(update_failures(&garbage, 1), None);
    }

    #[test]
    fn many_failures_are_counted_not_listed() {
        let failures = update_failures(&reported(&[Code::Internal; 9]), 9).unwrap();
        let error = SessionError::Write { switch: "s1".to_owned(), total: 9, failures };
        assert!(error.to_string().ends_with("update 4: INTERNAL: so; and 4 more"), "{error}");
    }

    #[test]
    fn a_refusal_is_told_from_a_broken_connection() {
        let refused = SessionError::from_status("s1", "a write", &Status::permission_denied("not primary"));
        assert_eq!(refused.code(), Some(Code::PermissionDenied));
        assert_eq!(refused.to_string(), "switch s1 refused a write: PERMISSION_DENIED: not primary");
        let broken = SessionError::from_status("s1", "a write", &Status::unavailable("gone"));
        assert!(matches!(broken, SessionError::Ended { .. }), "{broken}");
    }
}
