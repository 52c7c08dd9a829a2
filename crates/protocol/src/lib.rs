//! The aggregation protocol: worker and server as state machines without I/O or clocks.
//!
//! Every call takes `now` ([`Time`]). The caller polls for packets to send and passes in the packets that arrive. So
//! the host agent, the simulator and the tests drive the same code.

mod config;
mod error;
mod masks;
mod numbers;
mod operation;
mod rtt;
mod server;
mod stripe;
mod striped;
mod tags;
mod takeover;
mod time;
mod vouch;
mod worker;

pub use config::{ConfigError, DEFAULT_WINDOW, MAX_WINDOW, ServerConfig, Timers, WorkerConfig};
pub use error::{CollectiveError, Missing, StartError};
pub use numbers::{
    AllReduce, Bounds, Broadcast, Collective, ElementType, GradientData, JointAllReduce, NotFinite,
    OwnedPart, Part, PartsSum, Reduced, Run, Sums, Tensor,
};
pub use operation::{OperationEvent, OperationId};
pub use server::{Recipient, ResultOut, Server, ServerStats};
pub use stripe::{MOST_STRIPES, Stripe, StripesError};
pub use striped::{StripedOutcome, StripedReduced, ranges as stripe_ranges};
pub use takeover::{FinishedSlice, TakeOver, TakeOverError, merge};
pub use time::Time;
pub use tributary_wire::Downlink;
pub use vouch::vouching_key;
pub use worker::{Outgoing, Worker, WorkerProgress, WorkerStats};
