//! `tributary-paper`: makes the figures and tables of the documentation from scratch.
//!
//! It writes them into `docs/results/`.

mod codecs;
mod hops;
mod measurements;
mod policies;
mod progress;
mod results;
mod workload;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use measurements::Programs;
use workload::Model;

/// Makes the figures and tables of the documentation from scratch.
#[derive(Debug, Parser)]
struct Args {
    /// Parts to make [default: everything]
    #[arg(value_enum)]
    parts: Vec<ResultsFolder>,

    /// Where to: a folder for each part is replaced in it
    #[arg(long, value_name = "FOLDER", default_value = "docs/results")]
    out: PathBuf,

    /// The binary to measure; `tributary-bench` is in the same folder
    #[arg(long, value_name = "FILE", default_value = "target/release/tributary")]
    tributary: PathBuf,

    /// The Python that has PyTorch, for the parts that need it
    #[arg(long, value_name = "FILE", default_value = "target/python/bin/python")]
    python: String,
}

/// A folder of `docs/results`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ResultsFolder {
    /// The all-reduce beside gloo's and Open MPI's; needs root, and those: `make bench-tools`
    Allreduce,
    /// An agent's processor time; needs root
    Agent,
    /// The embedded switch beside a bare loop, and BMv2; needs root
    Switch,
    /// Programs that forward, beside BMv2; needs root
    Forwarding,
    /// Many tensors beside one; needs root
    Overlap,
    /// The cost of tags
    Tags,
    /// The protocol under losses, simulated
    Losses,
    /// The planner in large clusters
    Plan,
    /// The fabric in large clusters, simulated
    Scale,
    /// Countermeasures against slow processes; needs root
    Degraded,
    /// Gradients that leave at time points; needs root
    TimePoints,
    /// PyTorch over the fabric and over gloo; needs root
    Pytorch,
    /// The gain of each level of aggregation
    Hops,
    /// Codecs without a network
    CodecsAlone,
    /// Codecs over links of a given speed; needs root
    Codecs,
    /// Ways to synchronise workers at one learning rate
    PoliciesOneRate,
    /// The same, each at its best one, on the demo's network
    PoliciesDigits,
    /// The same on a convolutional network of 1.2 million parameters
    PoliciesCnn,
    /// The same on a transformer of 1.2 million parameters
    PoliciesTransformer,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let parts = if args.parts.is_empty() { ResultsFolder::value_variants() } else { &args.parts };
    for part in parts {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let start = Instant::now();
        make(*part, &name, &args).with_context(|| format!("cannot make {name}"))?;
        eprintln!("{name}: done in {} s", start.elapsed().as_secs());
    }
    Ok(())
}

fn make(part: ResultsFolder, name: &str, args: &Args) -> Result<()> {
    let (tributary, python, out) = (&args.tributary, args.python.as_str(), &args.out);
    let measurement = match part {
        ResultsFolder::Codecs => return codecs::study(tributary, out),
        ResultsFolder::Hops => return hops::study(tributary, out),
        ResultsFolder::PoliciesDigits => return policies::study(Model::Digits, python, out, true),
        ResultsFolder::PoliciesCnn => return policies::study(Model::Cnn, python, out, false),
        ResultsFolder::PoliciesTransformer => return policies::study(Model::Transformer, python, out, false),
        ResultsFolder::Allreduce => &measurements::ALLREDUCE,
        ResultsFolder::Agent => &measurements::AGENT,
        ResultsFolder::Switch => &measurements::SWITCH,
        ResultsFolder::Forwarding => &measurements::FORWARDING,
        ResultsFolder::Overlap => &measurements::OVERLAP,
        ResultsFolder::Tags => &measurements::TAGS,
        ResultsFolder::Losses => &measurements::LOSSES,
        ResultsFolder::Plan => &measurements::PLAN,
        ResultsFolder::Scale => &measurements::SCALE,
        ResultsFolder::Degraded => &measurements::DEGRADED,
        ResultsFolder::TimePoints => &measurements::TIME_POINTS,
        ResultsFolder::Pytorch => &measurements::PYTORCH,
        ResultsFolder::CodecsAlone => &measurements::CODECS_ALONE,
        ResultsFolder::PoliciesOneRate => &measurements::POLICIES_ONE_RATE,
    };
    measurement.study(name, &Programs { tributary, python }, out)
}
