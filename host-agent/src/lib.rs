//! The worker and server roles on a host.
