//! The options of `tributary allreduce`.

use std::time::Duration;

use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use tributary_cli::options::size;

use crate::options::part::PartArgs;

/// Reduces a tensor over all members of a job, and reports the time
///
/// The command uses the agent of this host. Run it on every worker of the job with the same options.
#[derive(Debug, Args)]
pub(crate) struct AllReduceArgs {
    #[command(flatten)]
    pub(super) part: PartArgs,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = size)]
    pub(super) size: ByteSize,

    /// Divide the tensor into this number of tensors of about the same size, reduced one after the other
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "codec",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) tensors: u32,

    /// Number of tensors that are in flight at the same time
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) in_flight: u32,

    /// Data type of the tensor's elements
    #[arg(long, value_enum, default_value_t = DataType::F32)]
    pub(super) dtype: DataType,

    /// Quantise f32: send levels that the fabric aggregates, instead of the values (docs/quantisation.md)
    #[arg(long, value_enum)]
    pub(super) codec: Option<Codec>,

    /// Add the error of one iteration's levels to the next iteration
    #[arg(long, requires = "codec")]
    pub(super) feedback: bool,

    /// Number of all-reduces
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) iterations: u32,

    /// Size of a tensor that is reduced once before the measurement, because the first all-reduce of a
    /// process includes the cost of new memory
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub(super) warm_up: ByteSize,

    /// Compare every sum with the expected sum; with --codec, also measure its error relative to the plain
    /// sum
    #[arg(long)]
    pub(super) check: bool,

    /// Let all ranks begin and end each iteration together, so that no rank's time includes the wait for a
    /// late rank
    #[arg(long)]
    pub(super) barrier: bool,

    /// Time after which each all-reduce fails [default: as long as the job lives]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) deadline: Option<Duration>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(super) json: bool,
}

/// The data type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum DataType {
    F32,
    I32,
    F16,
    Bf16,
}

/// Codecs whose codes a fabric can aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Codec {
    /// Four levels that all ranks agree on in each iteration
    #[value(name = "casq-4-shared")]
    Casq4Shared,
}

impl Codec {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Casq4Shared => "casq-4-shared",
        }
    }
}

impl DataType {
    /// Returns the codec's name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

/// Parses a positive time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.filter(|seconds| !seconds.is_zero());
    seconds.ok_or_else(|| "a number of seconds is needed, such as 2.5, and more than 0".to_owned())
}
