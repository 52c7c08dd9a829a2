//! `tributary-bench scale`: whole clusters in a fluid model, compared with methods without the fabric.

mod picture;
mod report;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tributary_cli::options::{share, size, window};
use tributary_cli::output;
use tributary_controller::built_in_slots;
use tributary_protocol::DEFAULT_WINDOW;
use tributary_sim::flow::study::{Settings, Study};
use tributary_sim::flow::{Assumptions, Compute};

use super::common::rate;
use report::{ScaleReport, Studied};
use tributary_picture::PictureFile;

/// The default window, and one large enough to fill links of 100 Gbit/s.
const WINDOWS: [u32; 2] = [DEFAULT_WINDOW, 4 * DEFAULT_WINDOW];

/// Compares in-network aggregation with parameter servers, ring and tree all-reduces on clusters that
/// are too large for one machine: up to 4,096 workers, up to 16 jobs that share links and slots, background traffic,
/// switches that die. It uses a model of rates without packets; docs/scale.md states its assumptions. The same
/// options always give the same numbers.
#[derive(Debug, Clone, Args)]
pub(crate) struct ScaleArgs {
    /// Studies to run
    #[arg(long, value_enum, value_name = "STUDY,…", value_delimiter = ',', default_values_t = StudyName::all())]
    studies: Vec<StudyName>,

    /// Rate of the hosts' links, such as 25gbit or "100 Gbit/s"
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "100gbit")]
    rate: u64,

    /// Factor by which links between switches are slower, except for `scaling`
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    oversubscription: u32,

    /// Bytes of one worker's gradient
    #[arg(long, value_name = "BYTES", default_value = "100MB", value_parser = size)]
    size: ByteSize,

    /// Computing time between two synchronisations, in milliseconds, except for `scaling`
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    compute: u64,

    /// Greatest delay of a worker in an iteration, as a share of the computing time, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    spread: f64,

    /// Windows of the fabric, in slices, powers of two
    #[arg(long, value_name = "SLOTS,…", value_delimiter = ',', value_parser = window, default_values_t = WINDOWS)]
    window: Vec<u32>,

    /// Slots of each switch, except for `slots` [default: those of the built-in program]
    #[arg(long, value_name = "SLOTS")]
    slots: Option<u32>,

    /// Workers of a job, except for `scaling`
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..=512))]
    workers: u16,

    /// Number of hosts of the sharded parameter server
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    servers: u16,

    /// Highest rate that a host handles in each direction [default: the rate of its link]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    host_rate: Option<u64>,

    /// Delay of a cable and of the switch at its end, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 1_000)]
    hop_ns: u32,

    /// Delay that a host adds to each packet, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 10_000)]
    host_ns: u32,

    /// Iterations of each job
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    iterations: u32,

    /// Runs of each case, with different random choices; results are means
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Also write a picture of each study, STUDY.svg, into this folder, which is created if necessary
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// The name of a study on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StudyName {
    /// One job with 16 to 4,096 workers
    Scaling,
    /// 1 to 16 jobs that share links and slots
    Jobs,
    /// 16 jobs, on switches with slots for 0 to 16 of them
    Slots,
    /// Background traffic of 0 to 80 %
    Congestion,
    /// A switch that dies for three seconds
    Failures,
}

impl StudyName {
    fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }
}

impl From<StudyName> for Study {
    fn from(name: StudyName) -> Self {
        match name {
            StudyName::Scaling => Self::Scaling,
            StudyName::Jobs => Self::Jobs,
            StudyName::Slots => Self::Slots,
            StudyName::Congestion => Self::Congestion,
            StudyName::Failures => Self::Failures,
        }
    }
}

/// Runs the studies, and prints the results.
///
/// # Errors
/// The options do not fit a study, or a picture cannot be written.
pub(crate) fn run(args: &ScaleArgs) -> Result<()> {
    if let Some(folder) = &args.plots {
        // The folder is created before the studies, because a failure afterwards would lose their results.
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder for pictures, {}", folder.display()))?;
    }
    let settings = settings(args)?;
    let studies: Vec<Study> = args.studies.iter().copied().map(Study::from).collect();
    let bar = ProgressBar::new(studies.iter().map(|study| study.points() as u64).sum());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    let mut studied = Vec::new();
    for study in studies {
        let mut points = Vec::new();
        for point in 0..study.points() {
            bar.set_message(format!("{study:?}").to_lowercase());
            points.push(settings.measure(study, point)?);
            bar.inc(1);
        }
        studied.push(Studied { study, points });
    }
    bar.finish_and_clear();
    let report = ScaleReport { settings, studies: studied };
    if let Some(folder) = &args.plots {
        for studied in &report.studies {
            let file = folder.join(format!("{}.svg", studied.name()));
            let file: PictureFile = file
                .to_str()
                .context("the folder's name is not UTF-8")?
                .parse()
                .map_err(anyhow::Error::msg)?;
            file.write(&picture::picture(studied, &report.settings))?;
        }
    }
    if args.json {
        output::print(serde_json::to_string_pretty(&report)?)?;
    } else {
        output::print(&report)?;
    }
    Ok(())
}

fn settings(args: &ScaleArgs) -> Result<Settings> {
    let slots = args.slots.map_or_else(built_in_slots, Ok)?;
    let nanoseconds = |time: u32| f64::from(time) * 1e-9;
    Ok(Settings {
        rate: args.rate,
        oversubscription: args.oversubscription,
        gradient_bytes: args.size.as_u64(),
        compute: Compute { seconds: args.compute as f64 * 1e-3, spread: args.spread },
        windows: args.window.clone(),
        servers: args.servers.into(),
        workers: args.workers.into(),
        iterations: args.iterations,
        seeds: args.seeds,
        assumptions: Assumptions {
            hop_seconds: nanoseconds(args.hop_ns),
            host_seconds: nanoseconds(args.host_ns),
            host_rate: args.host_rate,
            ..Assumptions::with_slots(slots)
        },
    })
}
