//! The options of `tributary demo`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tributary_protocol::DEFAULT_WINDOW;
use tributary_trainer::Training;

use tributary_cli::options::{Aggregation, Downlink, probability, window};

/// Trains a small network over a multi-hop aggregation tree, all in this process
///
/// Embedded switches that run the compiled P4 program, the controller that sets them up over P4Runtime, the aggregation
/// server and the workers.
#[derive(Debug, Clone, Args)]
pub struct DemoArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,

    /// Rounds of training: one mini-batch and one all-reduce each
    #[arg(long, default_value_t = Training::DEFAULT_ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Where gradients are aggregated on their way
    #[arg(long, value_enum, default_value_t = Aggregation::Tree)]
    pub(crate) aggregation: Aggregation,

    /// Delivery of results to the workers
    #[arg(long, value_enum, default_value_t = Downlink::Multicast)]
    pub(crate) downlink: Downlink,

    /// Probability that a link loses a frame, on every link and in both directions
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub(crate) loss: f64,

    /// Seed of the training and of the losses
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Slices in flight at once, a power of two: the slots that the job owns on each switch
    #[arg(long, value_name = "SLOTS", default_value_t = DEFAULT_WINDOW, value_parser = window)]
    pub(crate) window: u32,

    /// Folder of another compiled pipeline: tributary.json and tributary.p4info.txtpb
    #[arg(long, value_name = "DIR")]
    pub(crate) pipeline: Option<PathBuf>,

    /// Address of the controller's API [default: a free port on loopback]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}
