//! `tributary plan`: plans a job's tree on a topology, without a running fabric.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use tributary_controller::built_in_slots;
use tributary_planner::{FabricState, JobRequest, plan};
use tributary_protocol::DEFAULT_WINDOW;

use tributary_cli::options::{Aggregation, Downlink, load_topology, size, window};
use tributary_cli::output;
use tributary_picture::PictureFile;

use crate::present::plan as present;

/// Shows the aggregation tree of a job on a topology
///
/// The command prints the switches that aggregate, the hop stacks, the bytes on every link and the expected speed-up.
/// It starts nothing.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    topology: Option<PathBuf>,

    /// The topology as an option, which older command lines use instead of the positional argument
    #[arg(long = "topology", value_name = "FILE", conflicts_with = "topology", hide = true)]
    topology_option: Option<PathBuf>,

    /// Where gradients are aggregated on their way
    #[arg(long, value_enum, default_value_t = Aggregation::Tree)]
    aggregation: Aggregation,

    /// Delivery of results to the workers
    #[arg(long, value_enum, default_value_t = Downlink::Multicast)]
    downlink: Downlink,

    /// Bytes of one worker's gradient, such as 64MiB or 250MB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size)]
    size: ByteSize,

    /// Slices in flight at once, a power of two: the slots that the job takes on each switch
    #[arg(long, value_name = "SLOTS", default_value_t = DEFAULT_WINDOW, value_parser = window)]
    window: u32,

    /// Print the plan as one JSON object instead of drawings and tables
    #[arg(long)]
    json: bool,

    /// Also write a picture of the tree to this file
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    plot: Option<PictureFile>,
}

/// Plans the job and prints the requested results.
///
/// # Errors
/// The topology is invalid (the error names the file and the line), the job does not fit it, or the
/// picture cannot be written.
pub(crate) fn run(args: &PlanArgs) -> Result<()> {
    let topology =
        load_topology(args.topology.as_ref().or(args.topology_option.as_ref()).map(PathBuf::as_path))?;
    let state = FabricState::of(&topology, built_in_slots()?);
    let job = JobRequest {
        aggregation: args.aggregation.into(),
        downlink: args.downlink.into(),
        ..JobRequest::of(&topology, args.window, args.size.as_u64())
            .context("the topology has no aggregation server")?
    };
    let plan = plan(&topology, &state, &job)?;
    if let Some(file) = &args.plot {
        file.write(&present::picture(&topology, &plan))?;
    }
    let text = if args.json { serde_json::to_string_pretty(&plan)? } else { present::text(&topology, &plan) };
    output::print(&text)
}
