//! The controller, the P4 program and the agents with the real BMv2.
//!
//! Needs `simple_switch_grpc`, root and `ip` (iproute2); says so and passes where they are missing.

mod collective;
mod reconciliation;
