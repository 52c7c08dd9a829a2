//! The gRPC API between the controller and the host agents.
