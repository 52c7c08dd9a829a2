//! A small neural network and its data, for data-parallel training over the fabric.
//!
//! The network is a perceptron with two hidden layers. It learns to read the UCI handwritten digits ([`Digits`]) by
//! synchronous mini-batch SGD. In each round, a worker computes the *sum* of its samples' gradients, the fabric
//! aggregates the sums of all workers, and every worker takes the same step:
//!
//! ```text
//! parameters -= learning_rate / total_samples · summed_gradient
//! ```
//!
//! The workers' mini-batches of a round together are exactly the mini-batch of a single machine. So
//! [`train_on_one_machine`] is the same training up to rounding, and a reference for the sums of the fabric.
//!
//! In a job whose members change, [`Sampler`] chooses the samples of each worker so that none is lost or repeated, and
//! [`ElasticLearner`] trains with them.
//!
//! All results are functions of [`Training`] and the data: the crate uses no clock, no I/O and no threads. Runs on one
//! machine repeat bit for bit; the matrix kernels of another CPU may round differently. The initial parameters and
//! [`Model::apply`] use only exactly rounded operations. So workers on different machines that get equal sums keep
//! equal parameters.
//!
//! ```
//! use tributary_trainer::{Digits, Training, train_on_one_machine};
//!
//! # fn main() -> Result<(), tributary_trainer::TrainerError> {
//! let digits = Digits::embedded()?;
//! let model = train_on_one_machine(&Training::new(8, 10, 1)?, &digits)?;
//! assert!(model.accuracy(&digits.held_out) > 0.5);
//! # Ok(())
//! # }
//! ```

mod batches;
mod dense;
mod digits;
mod elastic;
mod error;
mod images;
mod learner;
mod model;
mod remote;
mod sampler;
mod training;

pub use batches::Share;
pub use digits::Digits;
pub use elastic::ElasticLearner;
pub use error::TrainerError;
pub use images::{CLASSES, Images, PIXELS};
pub use learner::{Learner, train_on_one_machine};
pub use model::{Model, PARAMETERS};
pub use remote::RemoteLearner;
pub use sampler::{Sampler, Shards};
pub use training::Training;
