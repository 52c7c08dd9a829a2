//! Runs random scenarios until it is stopped.
//!
//! Prints its progress, and the seed of any scenario that fails.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use tributary_sim::{FailedScenario, Total, case, search};

/// Simulates random trees, losses, duplicates, reboots and stalls on a virtual clock,
/// until it is interrupted.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed
    #[arg(long, default_value_t = 1)]
    first: u64,

    /// Number of seeds; with 1 the scenario is shown, too
    #[arg(long)]
    seeds: Option<u64>,

    /// Stop when workers have contributed this many values
    #[arg(long)]
    until: Option<u64>,

    /// Approximate number of values that the workers of one scenario contribute
    #[arg(long, default_value_t = 1 << 20)]
    values: usize,

    /// Print the final figures as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let Arguments { first, seeds, until, values, json } = Arguments::parse();
    if seeds == Some(1) {
        println!("{:#?}", case(first, values));
    }
    let (begun, mut shown) = (Instant::now(), Instant::now());
    let told = |total: &Total, found: Option<FailedScenario>| {
        if let Some(FailedScenario { seed, error }) = &found {
            println!("seed {seed}: {error}; again: --first {seed} --seeds 1 --values {values}");
        }
        if shown.elapsed().as_secs() >= 10 {
            shown = Instant::now();
            eprintln!("{}", words(total, begun));
        }
        until.is_none_or(|until| total.values < until)
    };
    let end = seeds.map_or(u64::MAX, |seeds| first.saturating_add(seeds));
    let total = search(first..end, values, told);
    if json {
        println!("{}", serde_json::json!(total));
    } else {
        println!("{}", words(&total, begun));
    }
    if total.wrong + total.stuck == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn words(total: &Total, begun: Instant) -> String {
    let Total { scenarios, values, retransmitted, lost, wrong, stuck } = total;
    let seconds = begun.elapsed().as_secs();
    format!(
        "{scenarios} scenarios in {seconds} s: {:.3} billion values, {lost} packets lost, {retransmitted} slices sent again, \
         {wrong} wrong, {stuck} stuck",
        *values as f64 / 1e9
    )
}
