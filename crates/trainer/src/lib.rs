//! A small neural network and its data, to train data-parallel over the fabric.
//!
//! The network is a perceptron with two hidden layers that learns to read the UCI handwritten digits
//! ([`Digits`]) by synchronous mini-batch SGD. Each round, a worker computes the *sum* of its samples'
//! gradients, the fabric aggregates the workers' sums, and every worker takes the same step:
//!
//! ```text
//! parameters -= learning_rate / total_samples · summed_gradient
//! ```
//!
//! The workers' mini-batches of a round together are exactly the mini-batch of a single machine, so that
//! [`train_on_one_machine`] is the same training up to rounding, and a reference for what the fabric aggregates.
//!
//! Where workers come and go, [`Sampler`] chooses the samples of each worker so that none is lost or repeated, and
//! [`ElasticLearner`] trains with it.
//!
//! Everything is a function of [`Training`] and the data: no clock, no I/O, no threads. Runs on one
//! machine repeat bit for bit; another CPU's matrix kernels may round differently. The initial
//! parameters and [`Model::apply`] use only exactly rounded operations, so that workers on different
//! machines that get the same sums keep the same parameters.
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
