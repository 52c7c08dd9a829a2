//! Errors, their codes in the header, and the text of a thread's last error.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

use tributary_client::{ClientError, ErrorKind};

/// The result of a function without an error.
pub(crate) const OK: c_int = 0;

/// The kinds of errors. The header has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    Other = 1,
    InvalidArgument = 2,
    AgentUnreachable = 3,
    PermissionDenied = 4,
    JobOver = 5,
    JobEnded = 6,
    NoSum = 7,
    DeadlinePassed = 8,
}

/// An error of a function of the library.
#[derive(Debug)]
pub(crate) struct Error {
    kind: Kind,
    text: String,
}

impl Error {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Kind::InvalidArgument, text)
    }

    /// Converts an error of joining. A failed precondition means that the job is over.
    pub(crate) fn joining(error: &ClientError) -> Self {
        Self::during(error, Kind::JobOver)
    }

    /// Converts an error of an operation. A failed precondition means that the values have no sum.
    pub(crate) fn reducing(error: &ClientError) -> Self {
        Self::during(error, Kind::NoSum)
    }

    /// Converts an error of another call.
    pub(crate) fn calling(error: &ClientError) -> Self {
        Self::during(error, Kind::Other)
    }

    fn during(error: &ClientError, failed_precondition: Kind) -> Self {
        let kind = match error.kind() {
            ErrorKind::AgentUnreachable => Kind::AgentUnreachable,
            ErrorKind::DeadlinePassed => Kind::DeadlinePassed,
            ErrorKind::FailedPrecondition => failed_precondition,
            ErrorKind::PermissionDenied => Kind::PermissionDenied,
            ErrorKind::JobOver => Kind::JobOver,
            ErrorKind::JobEnded => Kind::JobEnded,
            ErrorKind::Regroup | ErrorKind::Detached | ErrorKind::Other => Kind::Other,
        };
        Self::new(kind, error.to_string())
    }

    /// Makes the error this thread's last error, and returns its code.
    pub(crate) fn report(self) -> c_int {
        // A text with a NUL would be cut off by C, so the NUL is left out.
        let text = CString::new(self.text.replace('\0', "")).unwrap_or_default();
        LAST.with_borrow_mut(|last| *last = text);
        self.kind as c_int
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns the text of this thread's last error, which is valid until its next error.
pub(crate) fn last_text() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}
