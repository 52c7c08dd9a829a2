//! Runs all contenders in turn, round by round.
//!
//! So disturbances of the machine affect all contenders alike. First come our fabric and the contenders that
//! others have made. Then come our fabrics that aggregate on fewer switches, and last all over links with
//! losses.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::timeout;
use tributary_bench::comparison::{Case, ComparisonReport, ComparisonSetting, Contender, Machine, Turn};
use tributary_cli::output;
use tributary_lab::Lab;
use tributary_topology::format_rate;

use super::args::AllReduceArgs;
use super::baseline::Baselines;
use super::gloo::{Gloo, GlooWork};
use super::openmpi::OpenMpi;
use super::own_contenders;
use super::processor::Processor;
use super::timing::{Timing, tensors_of_a_turn};
use crate::measurements::counters::Counters;
use crate::measurements::networks::{Network, Shape, Switches};
use tributary::Stop;
use tributary_cli::options::Aggregation;

/// Factor by which a turn may exceed the slowest contender's bound.
///
/// Losses, slow machines and the start of the contenders take time.
const PATIENCE_FACTOR: f64 = 30.0;
const PATIENCE_TO_START: Duration = Duration::from_secs(120);

/// Measures all cases that `args` requests.
pub(super) async fn measure(args: &AllReduceArgs) -> Result<ComparisonReport> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let shape = Shape::load(args.topology.as_deref(), args.mtu)?;
    let baselines = Baselines::find(&args.contenders, args.dtype, &args.python);
    let cases: Vec<Vec<Case>> = args.rate.iter().map(|rate| args.cases(*rate, &baselines)).collect();
    ensure!(
        cases.iter().any(|cases| !cases.is_empty()),
        "there is nothing to measure: {}",
        baselines.why_not()
    );
    let progress = progress_bar(cases.iter().map(Vec::len).sum::<usize>() as u64 * u64::from(args.rounds));
    let mut turns = Vec::new();
    let parts = args
        .rate
        .iter()
        .zip(&cases)
        .flat_map(|(rate, cases)| parts(cases).into_iter().map(move |part| (rate, part)));
    for (at, (rate, part)) in parts.enumerate() {
        progress.set_message(format!("{}: starting the networks", format_rate(*rate)));
        let mut site = Site::up(args, &shape, &part, at).await?;
        for round in 1..=args.rounds {
            for case in &part {
                let what = format!("{}, round {round} of {}: {case}", format_rate(*rate), args.rounds);
                progress.set_message(what.clone());
                let turn = site.turn(case).await?;
                if progress.is_hidden() {
                    let times: Vec<_> = turn.seconds.iter().map(|s| format!("{:.0} ms", s * 1e3)).collect();
                    output::complain(format_args!("{what}: {}", times.join(", ")));
                }
                turns.push((*case, turn));
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    let setting = ComparisonSetting {
        began,
        topology: shape.topology().name().to_owned(),
        workers: shape.topology().workers().len(),
        bytes: args.size.as_u64(),
        elements: args.dtype,
        mtu: shape.topology().mtu(),
        rounds: args.rounds,
        iterations: args.iterations,
        machine: Machine::this(),
        versions: baselines.versions,
        skipped: baselines.skipped,
    };
    Ok(ComparisonReport::of(setting, &turns)?)
}

/// Groups the cases whose networks are up at the same time.
///
/// Each of our idle fabrics takes processor time from the contender that works. So only the main fabric is up
/// while it is compared with gloo and Open MPI. The fabrics that aggregate less come next, then the links
/// with single frames, for each loss.
fn parts(cases: &[Case]) -> Vec<Vec<Case>> {
    let mut parts: Vec<(_, Vec<Case>)> = Vec::new();
    for case in cases {
        let aggregates_less = matches!(case.contender, Contender::Leaf | Contender::Server);
        let key = (case.loss > 0.0 || case.single_frames, case.loss, aggregates_less);
        match parts.iter_mut().find(|(other, _)| *other == key) {
            Some((_, part)) => part.push(*case),
            None => parts.push((key, vec![*case])),
        }
    }
    parts.sort_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    parts.into_iter().map(|(_, part)| part).collect()
}

fn progress_bar(turns: u64) -> ProgressBar {
    // The bar is drawn on standard error, and only on a terminal; elsewhere each turn is a line.
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    let bar = ProgressBar::new(turns).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The networks of one group of cases, and the contenders that are ready in them.
///
/// All networks are up, and one contender works at a time. The idle networks take little time: the probes of
/// an idle fabric take 5 % of two cores.
struct Site<'a> {
    args: &'a AllReduceArgs,
    patience: Duration,
    processor: Processor,
    /// The networks with this project's switches.
    fabrics: Vec<(Switches, Network)>,
    bridges: Option<Bridges>,
}

/// A network of kernel bridges, and the contenders that are ready there.
///
/// It has our daemons only for the contender that is our server alone.
enum Bridges {
    // Processes are declared before their network, so that they are dropped first.
    Bare { gloo: Option<Gloo>, openmpi: Option<OpenMpi>, lab: Lab },
    Server(Network),
}

impl Bridges {
    fn lab(&self) -> &Lab {
        match self {
            Self::Bare { lab, .. } | Self::Server(Network { lab, .. }) => lab,
        }
    }
}

impl<'a> Site<'a> {
    async fn up(args: &'a AllReduceArgs, shape: &Shape, cases: &[Case], at: usize) -> Result<Self> {
        let mut stop = Stop::new()?;
        let rate = cases.first().map_or(1, |case| case.rate);
        let name = format!("bench-{}-{at}", std::process::id());
        let mut fabrics = Vec::new();
        for switches in cases.iter().filter_map(fabric_for) {
            let name = format!("{name}-{}", fabrics.len());
            fabrics.push((switches, shape.up(&name, rate, switches, &mut stop).await?));
        }
        let has = |wanted: &[Contender]| cases.iter().any(|case| wanted.contains(&case.contender));
        let (gloo, openmpi) = (has(&[Contender::Gloo]), has(&[Contender::OpenMpi, Contender::OpenMpiRing]));
        let name = format!("{name}-bridges");
        let bridges = if has(&[Contender::Server]) {
            Some(Bridges::Server(shape.up(&name, rate, Switches::Bridges, &mut stop).await?))
        } else if gloo || openmpi {
            let loss = cases.first().map_or(0.0, |case| case.loss);
            let (lab, hosts) = (shape.up_bare(&name, rate, loss)?, shape.workers());
            let work = GlooWork {
                python: &args.python,
                elements: args.elements(),
                dtype: args.dtype,
                iterations: args.iterations,
            };
            let gloo = if gloo { Some(Gloo::start(&lab, &hosts, work).await?) } else { None };
            let openmpi = openmpi.then(|| OpenMpi::prepare(&lab, &hosts)).transpose()?;
            Some(Bridges::Bare { gloo, openmpi, lab })
        } else {
            None
        };
        let bits = args.size.as_u64() as f64 * 8.0 * shape.topology().workers().len() as f64;
        let bound = Duration::from_secs_f64(bits / rate as f64 * tensors_of_a_turn(args.iterations));
        let patience = PATIENCE_TO_START + bound.mul_f64(PATIENCE_FACTOR);
        Ok(Self { args, patience, processor: Processor::watch(), fabrics, bridges })
    }

    /// Runs one turn of one contender, and measures its costs.
    async fn turn(&mut self, case: &Case) -> Result<Turn> {
        let before = Counters::read(self.lab(case)?)?;
        let patience = self.patience;
        let timings = timeout(patience, self.all_reduce(case)).await;
        let timings = timings
            .with_context(|| format!("{case} has not ended after {patience:?}"))?
            .with_context(|| format!("{case} failed"))?;
        let carried = Counters::read(self.lab(case)?)?.busiest_since(&before);
        let busy = timings.iter().filter_map(|timing| self.processor.busy(timing.began, timing.ended));
        let busy: Vec<f64> = busy.collect();
        Ok(Turn {
            seconds: timings.iter().map(|timing| timing.slowest).collect(),
            link_bytes: carried as f64 / tensors_of_a_turn(self.args.iterations),
            processor_share: busy.iter().sum::<f64>() / busy.len().max(1) as f64,
        })
    }

    async fn all_reduce(&mut self, case: &Case) -> Result<Vec<Timing>> {
        let args = self.args;
        if let Some(Network { lab, record }) = self.fabric(case) {
            return own_contenders::turn(lab, record, args).await;
        }
        let (gloo, openmpi, lab) = match self.bridges.as_mut().context("the network of bridges is missing")? {
            Bridges::Server(Network { lab, record }) => return own_contenders::turn(lab, record, args).await,
            Bridges::Bare { gloo, openmpi, lab } => (gloo, openmpi, lab),
        };
        if case.contender == Contender::Gloo {
            return gloo.as_mut().context("gloo was not started")?.turn().await;
        }
        let ring = case.contender == Contender::OpenMpiRing;
        openmpi.as_mut().context("Open MPI was not prepared")?.turn(lab, args, ring).await
    }

    fn fabric(&self, case: &Case) -> Option<&Network> {
        let wanted = fabric_for(case)?;
        self.fabrics.iter().find(|(switches, _)| *switches == wanted).map(|(_, network)| network)
    }

    fn lab(&self, case: &Case) -> Result<&Lab> {
        if let Some(fabric) = self.fabric(case) {
            return Ok(&fabric.lab);
        }
        Ok(self.bridges.as_ref().context("the network of bridges is missing")?.lab())
    }
}

/// Returns the kind of this project's switches that a case needs; `None` if it runs over bridges.
fn fabric_for(case: &Case) -> Option<Switches> {
    let aggregation = match case.contender {
        Contender::Ours => Aggregation::Tree,
        Contender::Leaf => Aggregation::Leaf,
        Contender::Gloo | Contender::OpenMpi | Contender::OpenMpiRing | Contender::Server => return None,
    };
    Some(Switches::Ours { aggregation, loss: case.loss, single_frames: case.single_frames })
}
