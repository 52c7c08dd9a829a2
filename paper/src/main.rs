//! `tributary-paper`: makes the figures and tables of the documentation from scratch, into `docs/results/`.

mod codecs;
mod hops;
mod policies;
mod progress;
mod results;
mod workload;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use workload::Model;

/// Makes the figures and tables of the documentation from scratch.
#[derive(Debug, Parser)]
struct Args {
    /// What to make [default: everything]
    #[arg(value_enum)]
    parts: Vec<Part>,

    /// Where to: a folder for each part is replaced in it
    #[arg(long, value_name = "FOLDER", default_value = "docs/results")]
    out: PathBuf,

    /// The binary to measure
    #[arg(long, value_name = "FILE", default_value = "target/release/tributary")]
    tributary: PathBuf,

    /// The Python that has PyTorch, for the parts that need it
    #[arg(long, value_name = "FILE", default_value = "target/python/bin/python")]
    python: String,
}

/// A folder of `docs/results`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// What each level of aggregation gains
    Hops,
    /// Codecs over links of a given speed; needs root
    Codecs,
    /// Ways to synchronise workers, on the demo's network
    PoliciesDigits,
    /// The same on a convolutional network of 1.2 million parameters
    PoliciesCnn,
    /// The same on a transformer of 1.2 million parameters
    PoliciesTransformer,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let parts = if args.parts.is_empty() { Part::value_variants() } else { &args.parts };
    for part in parts {
        let name = part.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let start = Instant::now();
        make(*part, &args).with_context(|| format!("cannot make {name}"))?;
        eprintln!("{name}: done in {} s", start.elapsed().as_secs());
    }
    Ok(())
}

fn make(part: Part, args: &Args) -> Result<()> {
    match part {
        Part::Codecs => codecs::study(&args.tributary, &args.out),
        Part::Hops => hops::study(&args.tributary, &args.out),
        Part::PoliciesDigits => policies::study(Model::Digits, &args.python, &args.out, true),
        Part::PoliciesCnn => policies::study(Model::Cnn, &args.python, &args.out, false),
        Part::PoliciesTransformer => policies::study(Model::Transformer, &args.python, &args.out, false),
    }
}
