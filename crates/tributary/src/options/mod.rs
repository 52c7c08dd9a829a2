//! Options that several commands and daemons share, and the values that they select.

pub(crate) mod named;
pub(crate) mod part;
pub(crate) mod remote;
pub(crate) mod tls;
pub(crate) mod topology;
