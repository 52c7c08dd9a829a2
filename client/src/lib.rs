//! A training process's side of its host's agent.
//!
//! ```no_run
//! # async fn example(token: Vec<u8>) -> Result<(), tributary_client::ClientError> {
//! use tributary_client::{Agent, Operation};
//! let agent = Agent::connect("/run/tributary/agent.sock").await?;
//! let mut job = agent.join("training", token).await?;
//! let mut gradients = job.segment(4 << 20).await?;
//! gradients.elements_mut::<f32>()?.fill(1.0);
//! job.all_reduce(&mut gradients, Operation { name: "layer 1", ..Operation::whole::<f32>() }).await?;
//! assert_eq!(gradients.elements::<f32>()?[0], job.ranks().len() as f32);
//! job.close().await?;
//! # Ok(()) }
//! ```

mod agent;
mod element;
mod error;
mod job;
mod quantised;
mod segment;

pub use agent::Agent;
pub use element::Element;
pub use error::ClientError;
pub use job::{Job, Operation, Run};
pub use quantised::{Quantised, Sent};
pub use segment::Segment;
pub use tributary_api::agent::v1::{ElementType, StatsResponse as Stats};
