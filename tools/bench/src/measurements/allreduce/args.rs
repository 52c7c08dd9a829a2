//! The options of the comparison, and the cases that the options select.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Args;
use tributary_bench::comparison::{Case, Contender, Elements};
use tributary_cli::options::{probability, size};

use super::baseline::Baselines;
use crate::measurements::common::rate;

/// Times all-reduces over links of the same rate: by this project's fabric, by the fabric with
/// aggregation on leaves only, by PyTorch's gloo, by Open MPI, and by this project's server without aggregation in
/// the network
///
/// All contenders take turns on the same network of this machine. gloo, Open MPI and the server alone use kernel
/// bridges in place of switches. Every sum is checked. Contenders that are not installed are left out, and the report
/// names them. On three-tier-8 with 8 MiB, at 50, 100 and 200 Mbit/s and 1 Gbit/s and MTUs of 1500 and 9000, the
/// project's own limits are checked; the exit status is 1 if a limit is missed.
#[derive(Debug, Clone, Args)]
pub(crate) struct AllReduceArgs {
    /// Topology file [default: the built-in topologies/three-tier-8.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) topology: Option<PathBuf>,

    /// Rates of all links, such as 50mbit or "2.5 Gbit/s"
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate,
          default_value = "50mbit,100mbit,200mbit")]
    pub(super) rate: Vec<u64>,

    /// MTU of all links, in bytes, for all contenders [default: the topology's]
    #[arg(long, value_name = "BYTES")]
    pub(super) mtu: Option<u16>,

    /// Probabilities that a link loses a frame, on every link and in both directions, such as 0.1%
    ///
    /// With losses, each packet is a frame of its own, which costs the processors more than packets that share frames. So
    /// this project's own all-reduce is also measured over single frames without losses. The two contenders with less or
    /// no aggregation are measured without losses only.
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = probability, default_value = "0,0.1%,1%")]
    pub(super) loss: Vec<f64>,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = size)]
    pub(super) size: ByteSize,

    /// Type of the elements; Open MPI adds f32 only
    #[arg(long, value_name = "TYPE", value_parser = elements, default_value = "f32")]
    pub(super) dtype: Elements,

    /// Number of turns of each contender
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: u32,

    /// All-reduces in each turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) iterations: u32,

    /// Contenders to measure
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = contender,
          default_values_t = Contender::ALL)]
    pub(super) contenders: Vec<Contender>,

    /// Python interpreter with PyTorch
    #[arg(long, value_name = "PROGRAM", env = "TRIBUTARY_BENCH_PYTHON", default_value = "python3")]
    pub(super) python: PathBuf,

    /// Also write the results to allreduce.json, and as a picture to allreduce.svg and
    /// allreduce.png, in this folder
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

impl AllReduceArgs {
    pub(super) fn elements(&self) -> u64 {
        self.size.as_u64() / self.dtype.bytes()
    }

    /// Returns the cases to measure at one rate, each once, in the order in which they take turns.
    pub(super) fn cases(&self, rate: u64, baselines: &Baselines) -> Vec<Case> {
        let mut cases = Vec::new();
        for &contender in self.contenders.iter().filter(|contender| baselines.has(**contender)) {
            let has_losses = !matches!(contender, Contender::Leaf | Contender::Server);
            for &loss in self.loss.iter().filter(|loss| **loss == 0.0 || has_losses) {
                let case = Case { rate, loss, single_frames: false, contender };
                let single = Case { loss: 0.0, single_frames: true, ..case };
                let with_single = loss > 0.0 && contender == Contender::Ours && self.loss.contains(&0.0);
                for case in [case].into_iter().chain(with_single.then_some(single)) {
                    if !cases.contains(&case) {
                        cases.push(case);
                    }
                }
            }
        }
        cases
    }
}

fn elements(text: &str) -> Result<Elements, String> {
    let known = Elements::ALL.map(Elements::name).join(", ");
    Elements::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| format!("give one of {known}"))
}

fn contender(text: &str) -> Result<Contender, String> {
    let known = Contender::ALL.map(Contender::name).join(", ");
    Contender::from_name(text).ok_or_else(|| format!("give one of {known}"))
}
