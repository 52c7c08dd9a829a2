//! `tributary-bench simulate`: time and bytes of an all-reduce over links with rising loss.

use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use indicatif::ProgressBar;
use tributary_cli::output;
use tributary_protocol::Downlink;
use tributary_sim::{Scenario, Sweep, sweep, table};

use tributary_cli::options::{self, probability, size, window};

const BYTES_PER_ELEMENT: u64 = 4;
const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Simulates all-reduces of 8 workers under three tiers of switches on a virtual clock: 15 links of 50
/// Mbit/s with queues of 64 packets. The same options always give the same numbers.
#[derive(Debug, Clone, Args)]
pub(crate) struct SimulateArgs {
    /// Probabilities that a link loses a frame, on every link and in both directions
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = probability,
          default_values_t = Sweep::default().losses)]
    loss: Vec<f64>,

    /// Slices in flight at once, powers of two
    #[arg(long, value_name = "SLOTS", value_delimiter = ',', value_parser = window,
          default_values_t = Sweep::default().windows)]
    window: Vec<u32>,

    /// Delivery of results to the workers
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [options::Downlink::Multicast])]
    downlink: Vec<options::Downlink>,

    /// Delay of the first worker's start, in milliseconds
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = Sweep::default().late_ms)]
    late: Vec<u64>,

    /// Bytes of one worker's gradient
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = size)]
    size: ByteSize,

    /// Runs of each combination, with different losses; the table holds their means
    #[arg(long, default_value_t = Sweep::default().seeds, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// Print a JSON array of rows instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs all combinations and prints a row for each.
///
/// # Errors
/// A simulation did not end.
pub(crate) fn run(args: &SimulateArgs) -> Result<()> {
    let elements = usize::try_from(args.size.as_u64().div_ceil(BYTES_PER_ELEMENT))?;
    let scenarios = Sweep {
        base: Scenario { elements, ..Scenario::default() },
        losses: args.loss.clone(),
        windows: args.window.clone(),
        downlinks: args.downlink.iter().copied().map(Downlink::from).collect(),
        late_ms: args.late.clone(),
        seeds: args.seeds,
    };
    let spinner = ProgressBar::new_spinner().with_message("simulating");
    spinner.enable_steady_tick(SPINNER_TICK);
    let rows = sweep(&scenarios);
    spinner.finish_and_clear();
    let rows = rows?;
    if args.json {
        output::print(serde_json::to_string(&rows)?)?;
    } else {
        output::print(table(&rows))?;
    }
    Ok(())
}
