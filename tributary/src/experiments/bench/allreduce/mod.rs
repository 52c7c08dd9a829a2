//! `tributary bench allreduce`: an all-reduce over the fabric beside what people would use instead.

mod baseline;
mod gloo;
mod openmpi;
pub(super) mod overlap;
mod own_contenders;
mod picture;
mod processor;
mod rounds;
mod table;
pub(super) mod timing;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::Args;
use tributary_bench::comparison::{Case, Contender, Report};
use tributary_cli::output;

use crate::daemons::service::WrongUse;
use crate::experiments::bench::{rate, until_stopped};
use baseline::Baselines;
pub(super) use own_contenders::run as reduce_on_all;
pub(super) use rounds::tensors_of_a_turn;
use tributary_cli::options::{probability, size};
use tributary_picture::{PngError, png};

/// File name, without extension, of the results in the folder of `--out`.
const FILE: &str = "allreduce";
const BYTES_PER_ELEMENT: u64 = 4;

/// Times all-reduces of f32 over links of the same rate: by this project's fabric, by one that aggregates on leaves only, by
/// PyTorch's gloo, by Open MPI, and by this project's server without aggregation in the network
///
/// All contenders run in turn on the same network of this machine. Those that are not this project's get kernel bridges
/// in place of switches. Every sum is checked. A contender that is not installed is left out, and the report says so.
/// The project's own limits are checked on three-tier-8 with 8 MiB, at 50, 100 and 200 Mbit/s and 1 Gbit/s and MTUs of
/// 1500 and 9000; the exit status is 1 if one is missed.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllReduceArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Rates of all links, such as 50mbit or "2.5 Gbit/s"
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate,
          default_value = "50mbit,100mbit,200mbit")]
    rate: Vec<u64>,

    /// Longest packet of all links, in bytes, for all contenders alike [default: the topology's]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,

    /// Probabilities that a link loses a frame, on every link and in both directions, such as 0.1%; with losses,
    /// only this project's own all-reduce is measured
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = probability, default_value = "0,0.1%,1%")]
    loss: Vec<f64>,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = size)]
    size: ByteSize,

    /// How often each contender has its turn
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// All-reduces in each turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Which contenders are measured
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = contender,
          default_values_t = Contender::ALL)]
    contenders: Vec<Contender>,

    /// A Python interpreter that has PyTorch
    #[arg(long, value_name = "PROGRAM", env = "TRIBUTARY_BENCH_PYTHON", default_value = "python3")]
    python: PathBuf,

    /// Also write the results to allreduce.json, and as a picture to allreduce.svg and allreduce.png, in this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl AllReduceArgs {
    fn elements(&self) -> u64 {
        self.size.as_u64() / BYTES_PER_ELEMENT
    }

    /// The cases to measure at one rate, in the order in which they take turns; each case once.
    fn cases(&self, rate: u64, baselines: &Baselines) -> Vec<Case> {
        let mut cases = Vec::new();
        for &contender in self.contenders.iter().filter(|contender| baselines.has(**contender)) {
            for &loss in self.loss.iter().filter(|loss| **loss == 0.0 || contender == Contender::Ours) {
                let case = Case { rate, loss, contender };
                if !cases.contains(&case) {
                    cases.push(case);
                }
            }
        }
        cases
    }
}

fn contender(text: &str) -> Result<Contender, String> {
    let known = Contender::ALL.map(Contender::name).join(", ");
    Contender::from_name(text).ok_or_else(|| format!("it is none of {known}"))
}

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, a network or a contender that fails, a sum that is wrong, a limit that is missed.
pub(crate) fn run(args: &AllReduceArgs) -> Result<()> {
    if !args.size.as_u64().is_multiple_of(BYTES_PER_ELEMENT) {
        return Err(WrongUse(format!("--size {}: give a whole number of f32", args.size)).into());
    }
    let report = until_stopped(rounds::measure(args))?;
    if args.json {
        output::print(serde_json::to_string(&report)?)?;
    } else {
        output::print(table::text(&report))?;
    }
    if let Some(folder) = &args.out {
        write(&report, folder)?;
    }
    let missed: Vec<_> =
        report.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    if !missed.is_empty() {
        bail!("limits were missed: {}", missed.join("; "));
    }
    Ok(())
}

fn write(report: &Report, folder: &Path) -> Result<()> {
    let to = |ending: &str| folder.join(FILE).with_extension(ending);
    let cannot = |ending: &str| format!("cannot write {}", to(ending).display());
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    fs::write(to("json"), serde_json::to_string_pretty(report)?).with_context(|| cannot("json"))?;
    let picture = format!("{}\n", picture::picture(report));
    fs::write(to("svg"), &picture).with_context(|| cannot("svg"))?;
    match png(&picture) {
        Ok(png) => fs::write(to("png"), png).with_context(|| cannot("png")),
        // The same picture has been written as SVG.
        Err(error @ PngError::NoFonts) => {
            eprintln!("note: there is no {}: {error}", to("png").display());
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
