//! An embedded v1model switch that interprets p4c's output and serves P4Runtime.
//!
//! - [`Pipeline`]: a BMv2 JSON, compiled into a compact form and checked against its P4Info;
//! - [`Switch`]: a pipeline with its tables, counters, registers and multicast groups, which
//!   processes frames;
//! - [`control`]: the state that a control plane reads and writes;
//! - [`engine`]: the thread that owns a switch and its ports;
//! - [`server`]: the P4Runtime server, to which controllers connect;
//! - [`SoftSwitch`]: a complete switch with its thread, ports and server.
//!
//! Inside, `json` reads the file, `compile` turns it into the `program` that `exec` runs.

mod check;
mod compile;
pub mod control;
mod digests;
pub mod engine;
mod error;
mod exec;
mod json;
mod lines;
mod meters;
mod outputs;
mod packet_log;
mod passes;
mod path;
mod pipeline;
mod pre;
mod processor;
mod profiles;
mod program;
mod registers;
pub mod server;
mod soft_switch;
mod switch;
mod table;
mod translation;
mod value_sets;

pub use error::{ControlError, LoadError, SwitchError};
pub use outputs::Outputs;
pub use packet_log::{LogForm, PacketLog};
pub use pipeline::Pipeline;
pub use program::DROP_PORT;
pub use server::Loaded;
pub use soft_switch::{CPU_PORT, SoftSwitch, SwitchConfig};
pub use switch::Switch;
