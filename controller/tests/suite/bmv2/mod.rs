//! Tests of the controller, the P4 program and the agents with BMv2.
//!
//! They need `simple_switch_grpc`, root and `ip` (iproute2). Without these, each test prints that and passes.

mod collective;
mod reconciliation;
