//! Options that several commands and daemons have, and what they stand for.

pub(crate) mod named;
pub(crate) mod part;
pub(crate) mod remote;
pub(crate) mod tls;
pub(crate) mod topology;
