//! P4Runtime messages, P4Info by name, and a small client session.
//!
//! - [`p4`] and [`google`]: the generated messages, client and server;
//! - [`p4info`]: the objects of a compiled program, by name or id;
//! - [`entry`]: table entries, counters, multicast groups and packets by name;
//! - [`canonical`]: the byte strings that carry values;
//! - [`runtime_json`]: entries from a file, in the format of p4lang's tutorials;
//! - [`session`]: a controller's connection to one switch.

mod bounds;
pub mod canonical;
pub mod entry;
pub mod p4info;
pub mod proto;
pub mod runtime_json;
pub mod session;

pub use google::rpc::Code;
pub use p4info::P4Info;
pub use proto::{google, p4};
pub use session::{Session, SessionError, Target};
