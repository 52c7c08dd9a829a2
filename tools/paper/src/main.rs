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

    /// Folder for the results; each part replaces its own subfolder
    #[arg(long, value_name = "FOLDER", default_value = "docs/results")]
    out: PathBuf,

    /// The program `tributary` to measure; `tributary-bench` must be in the same folder
    #[arg(long, value_name = "FILE", default_value = "target/release/tributary")]
    tributary: PathBuf,

    /// Python interpreter with PyTorch, for the parts that need PyTorch
    #[arg(long, value_name = "FILE", default_value = "target/python/bin/python")]
    python: String,
}

/// A folder of `docs/results`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ResultsFolder {
    /// The all-reduce, compared with gloo and Open MPI (`make bench-tools`); needs root
    Allreduce,
    /// `MPI_Allreduce` in the fabric and by Open MPI (`make bench-tools mpi`); needs root
    Mpi,
    /// An agent's processor time; needs root
    Agent,
    /// The embedded switch, compared with a bare loop and BMv2; needs root
    Switch,
    /// Forwarding programs on the embedded switch and on BMv2; needs root
    Forwarding,
    /// An all-reduce of many tensors, compared with one tensor; needs root
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
    /// Gradients sent at time points, compared with other methods; needs root
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
    /// Ways to synchronise workers, each at its best learning rate, on the demo's network
    PoliciesDigits,
    /// Ways to synchronise workers on a convolutional network of 1.2 million parameters
    PoliciesCnn,
    /// Ways to synchronise workers on a transformer of 1.2 million parameters
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
        ResultsFolder::Mpi => &measurements::MPI,
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
