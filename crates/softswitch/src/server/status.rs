//! Errors in the form in which P4Runtime clients receive them.

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};
use tributary_p4runtime::google::rpc;
use tributary_p4runtime::p4::v1::Error;

use crate::error::{ControlError, LoadError};

/// The namespace of this switch's error codes (P4Runtime's triplet target-architecture-vendor).
pub(super) const SPACE: &str = "softswitch-v1model-tributary";

/// The reason why a program, an update or a query was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    pub(super) code: rpc::Code,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(code: rpc::Code, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }

    pub(super) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(rpc::Code::InvalidArgument, reason)
    }

    pub(super) fn unimplemented(what: &str) -> Self {
        Self::new(rpc::Code::Unimplemented, format!("{what} is not supported by this switch"))
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        let code = match &error {
            ControlError::NoPipeline | ControlError::InUse(_) => rpc::Code::FailedPrecondition,
            ControlError::UnknownId { .. } | ControlError::InvalidArgument { .. } => {
                rpc::Code::InvalidArgument
            }
            ControlError::NotFound(_) => rpc::Code::NotFound,
            ControlError::AlreadyExists(_) => rpc::Code::AlreadyExists,
            ControlError::Full { .. } => rpc::Code::ResourceExhausted,
            ControlError::Constant(_) => rpc::Code::PermissionDenied,
            ControlError::OutOfRange { .. } => rpc::Code::OutOfRange,
            ControlError::Stopped => rpc::Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<LoadError> for Refusal {
    fn from(error: LoadError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = Code::from_i32(refusal.code.into());
        with_details(code, refusal.reason, Vec::new())
    }
}

/// Returns the status of a Write: OK if all updates were carried out, else UNKNOWN with one error
/// per update.
pub(super) fn of_batch(results: &[Result<(), Refusal>]) -> Result<(), Status> {
    of_all(results, "updates")
}

/// Returns the status of a Read: OK if all patterns were answered, else UNKNOWN with one error per
/// pattern.
pub(super) fn of_read(results: &[Result<(), Refusal>]) -> Result<(), Status> {
    of_all(results, "patterns")
}

fn of_all(results: &[Result<(), Refusal>], what: &str) -> Result<(), Status> {
    let failed = results.iter().filter(|result| result.is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    let details = results.iter().map(|result| pack(&error(result))).collect::<Option<Vec<_>>>();
    let words = format!("{failed} of {} {what} failed", results.len());
    Err(match details {
        Some(details) => with_details(Code::Unknown, words, details),
        None => Status::internal(format!("{words}, and the errors can't be encoded")),
    })
}

fn error(result: &Result<(), Refusal>) -> Error {
    match result {
        Ok(()) => Error { canonical_code: rpc::Code::Ok.into(), ..Error::default() },
        Err(refusal) => Error {
            canonical_code: refusal.code.into(),
            message: refusal.reason.clone(),
            space: SPACE.to_owned(),
            ..Error::default()
        },
    }
}

fn pack(error: &Error) -> Option<Any> {
    Any::from_msg(error).ok()
}

/// Makes a status with details.
/// As PI does, it also puts the whole status into `grpc-status-details-bin`, for clients that read
/// only this header.
fn with_details(code: Code, message: String, details: Vec<Any>) -> Status {
    let whole = rpc::Status { code: code.into(), message: message.clone(), details };
    Status::with_details(code, message, whole.encode_to_vec().into())
}
