//! The client library with which a training process uses its host's agent.
//!
//! ```no_run
//! # async fn example(token: Vec<u8>) -> Result<(), tributary_client::ClientError> {
//! use tributary_client::{Agent, Operation};
//! let agent = Agent::connect("/run/tributary/agent.sock").await?;
//! let job = agent.join("training", token).await?;
//! let mut gradients = job.segment(4 << 20).await?;
//! gradients.elements_mut::<f32>()?.fill(1.0);
//! job.all_reduce(&mut gradients, Operation { name: "layer 1", ..Operation::whole::<f32>() }).await?;
//! assert_eq!(gradients.elements::<f32>()?[0], job.ranks().len() as f32);
//! job.close().await?;
//! # Ok(()) }
//! ```
//!
//! Any number of all-reduces may be under way. They are started in the order of the calls. Each sum arrives when it is
//! complete, while the process continues to compute:
//!
//! ```no_run
//! # async fn example(token: Vec<u8>, gradient_of: impl Fn(usize, &mut [f32])) -> Result<(), tributary_client::ClientError> {
//! use tributary_client::{Agent, Operation};
//! let job = Agent::connect("/run/tributary/agent.sock").await?.join("training", token).await?;
//! let mut buckets = [job.segment(4 << 20).await?, job.segment(4 << 20).await?];
//! let mut under_way = Vec::new();
//! for (number, bucket) in buckets.iter_mut().enumerate().rev() {
//!     gradient_of(number, bucket.elements_mut()?);
//!     let operation = Operation { step_goes_on: number > 0, ..Operation::whole::<f32>() };
//!     under_way.push(job.start(bucket, &operation)?);
//! }
//! for reduction in under_way {
//!     reduction.await?;
//! }
//! # Ok(()) }
//! ```
//!
//! An *elastic* process accepts other processes that join later, and may itself join a running job. When a process has
//! joined, all members take over the parameters of an earlier member:
//!
//! ```no_run
//! # async fn example(token: Vec<u8>, gradient: impl Fn(&[f32], &mut [f32])) -> Result<(), tributary_client::ClientError> {
//! use tributary_client::{Agent, ClientError, JoinOptions, Operation};
//! let agent = Agent::connect("/run/tributary/agent.sock").await?;
//! let job = agent.join_with("training", token, JoinOptions::default().elastic()).await?;
//! let (mut parameters, mut gradients) = (job.segment(4 << 20).await?, job.segment(4 << 20).await?);
//! loop {
//!     // Does nothing unless this process or another process has joined the running job.
//!     job.synchronise(&mut parameters, Operation::whole::<f32>()).await?;
//!     gradient(parameters.elements()?, gradients.elements_mut()?);
//!     match job.all_reduce(&mut gradients, Operation::whole::<f32>()).await {
//!         Ok(_) => {} // the optimiser's step
//!         Err(ClientError::Regroup(_)) => continue,
//!         // Occurs only in jobs that react to slow processes. This process continues to make steps, so that its agent
//!         // detects when it is fast again.
//!         Err(ClientError::Detached(_)) => continue,
//!         Err(error) => return Err(error),
//!     }
//! }
//! # }
//! ```
//!
//! A process may also train with parameter servers, to which its host's agent connects:
//!
//! ```no_run
//! # async fn example(gradient: impl Fn(&[f32], &mut [f32])) -> Result<(), tributary_client::ClientError> {
//! use tributary_client::{Agent, TrainingOptions};
//! let agent = Agent::connect("/run/tributary/agent.sock").await?;
//! let servers = vec!["10.0.0.1:29812".to_owned()];
//! let options = TrainingOptions::new(servers, "digits", 0);
//! let mut training = agent.train(options).await?;
//! let (mut parameters, mut gradients) = (training.segment(4000).await?, training.segment(4000).await?);
//! let mut step = training.begin(&mut parameters).await?;
//! while step.iteration < 100 {
//!     gradient(parameters.elements()?, gradients.elements_mut()?);
//!     step = training.push(&mut gradients, &mut parameters).await?;
//! }
//! # Ok(()) }
//! ```

mod agent;
mod element;
mod error;
mod job;
mod membership;
mod operation;
mod options;
mod quantised;
mod reduction;
mod regroup;
mod request_stream;
mod schedule;
mod segment;
mod session;
mod synchronise;
mod training;
mod waits;
mod watchdog;

pub use agent::Agent;
pub use element::Element;
pub use error::{ClientError, ErrorKind};
pub use job::Job;
pub use operation::{NotFinite, Operation, Reduced, Run};
pub use options::{JoinOptions, Observer, Waiting};
pub use quantised::{Quantised, Sent};
pub use reduction::Reduction;
pub use regroup::{Detached, Regroup};
pub use schedule::{Decision, Gradient, Profile, ProfileNumber, Schedule, Set};
pub use segment::Segment;
pub use training::{PendingPart, PendingStep, Step, Training, TrainingOptions, Values};
pub use tributary_api::agent::MAX_PROCESSES;
pub use tributary_api::agent::v1::{CollectiveCount, CollectiveWay, ElementType, StatsResponse as Stats};
