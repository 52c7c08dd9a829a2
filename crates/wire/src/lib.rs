//! The packet formats of Tributary: views of received bytes, validated representations, constants.
//!
//! A packet is Ethernet / IPv4 / UDP ([`frame`]) around an INA message ([`message`]): a fixed header,
//! a stack of [hops](hop) and the [values] of one slice. All integers are big-endian.
//!
//! Programs read received bytes through a *view* ([`MessageView`], [`FrameView`]), which is checked once and copies
//! nothing. They write packets from a *representation* ([`Message`], [`FrameHeader`]), which cannot express a malformed
//! packet.
//!
//! The crate also has the format of [probes](probe) of cables.

pub mod constants;
mod downlink;
mod error;
pub mod frame;
pub mod hop;
pub mod ids;
pub mod message;
pub mod probe;
pub mod secret;
pub mod seq;
pub mod values;
mod width;

pub use downlink::Downlink;
pub use error::WireError;
pub use frame::{FrameHeader, FrameView, MacAddr};
pub use hop::Hop;
pub use ids::{JobId, NodeId, Rank};
pub use message::{Header, Kind, Message, MessageView, Operator, Tag, Totals};
pub use probe::Probe;
pub use secret::JobSecret;
pub use seq::Seq;
pub use values::ValuesView;
pub use width::SliceWidth;
