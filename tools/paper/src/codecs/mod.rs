//! The time that a training takes over links of a given speed, by codec.
//!
//! The bytes of both directions count. Every codec that supports error feedback uses it.

mod network;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use tributary_picture::{Axis, Chart, Line, OTHERS, OTHERS_LIGHT, OURS, OURS_LIGHT};

use crate::results::Results;
use network::{CurvePoint, LEARNING_RATE, TrainingCurve};

/// A pair of codecs: one for gradients and one for parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    codec: &'static str,
    /// The codec of the parameters that the server sends to the workers.
    back: &'static str,
    /// True if each layer is encoded separately, instead of the gradient as a whole.
    by_layer: bool,
}

const fn whole(codec: &'static str, back: &'static str) -> Candidate {
    Candidate { codec, back, by_layer: false }
}

const fn by_layer(codec: &'static str, back: &'static str) -> Candidate {
    Candidate { codec, back, by_layer: true }
}

const CANDIDATES: [Candidate; 28] = [
    whole("none", "none"),
    whole("f16", "none"),
    whole("uniform-8-ef", "none"),
    whole("uniform-2-ef", "none"),
    whole("terngrad", "none"),
    whole("terngrad-ef", "none"),
    by_layer("terngrad", "none"),
    by_layer("terngrad-ef", "none"),
    whole("one-bit-ef", "none"),
    whole("top-100-ef", "none"),
    whole("quantile-4-ef", "none"),
    whole("casq-4", "none"),
    whole("casq-4-ef", "none"),
    by_layer("casq-4-ef", "none"),
    whole("casq-8-ef", "none"),
    whole("f16", "f16"),
    whole("uniform-8-ef", "uniform-8"),
    whole("terngrad-ef", "uniform-8"),
    whole("terngrad-ef", "terngrad"),
    whole("one-bit-ef", "uniform-8"),
    whole("one-bit-ef", "one-bit"),
    whole("top-100-ef", "top-10"),
    whole("top-100-ef", "top-20"),
    whole("quantile-4-ef", "quantile-16"),
    whole("quantile-4-ef", "quantile-4"),
    whole("casq-8-ef", "casq-8"),
    whole("casq-4-ef", "casq-8"),
    whole("casq-4-ef", "casq-4"),
];
/// The rates of links, each with the number of seeds.
///
/// Rounds are synchronous, so a seed's accuracies are equal on all links.
const RATES: [(&str, u64); 2] = [("50 Mbit/s", 1), ("200 Mbit/s", 3)];
const ITERATIONS: u32 = 60;
/// An accuracy that the training without a codec reaches well before its end.
const TARGET: f64 = 0.94;
const KIB: f64 = 1024.0;

/// The results of one training, as a row for programs.
#[derive(Debug, Serialize)]
struct CodecRow {
    rate: &'static str,
    codec: &'static str,
    parameters_codec: &'static str,
    by_layer: bool,
    seed: u64,
    accuracy: f64,
    seconds: f64,
    seconds_to_target: Option<f64>,
    iterations_to_target: Option<u32>,
    into_server: u64,
    out_of_server: u64,
}

/// A point of a training's curve, as a row for programs.
#[derive(Debug, Serialize)]
struct CurveRow {
    rate: &'static str,
    codec: &'static str,
    parameters_codec: &'static str,
    by_layer: bool,
    seed: u64,
    seconds: f64,
    iteration: u32,
    accuracy: f64,
}

/// A candidate's trainings over links of one rate, in the order of their seeds from 1 on.
struct Trained {
    candidate: Candidate,
    runs: Vec<TrainingCurve>,
}

/// Trains with every candidate over links of every rate.
///
/// # Errors
/// No root rights, a training that fails, or a file that cannot be written.
pub(crate) fn study(tributary: &Path, out: &Path) -> Result<()> {
    let said = format!(
        "Eight workers train the demo's network (100,234 parameters) over a parameter server for {ITERATIONS} \
         synchronous rounds. Each node has a network namespace of its own, and one plain switch joins all links. \
         Every time is measured over real TCP, from the first step to the update; the server's link is the \
         bottleneck. *Into the server* and *out of the server* are the bytes of whole frames on this link in one \
         round of all workers. They are a {ITERATIONS}th of all bytes of the training, including its beginning, in \
         which the parameters are sent unencoded, once in each direction. *Reduction* is the sum of both without \
         codecs, divided by the sum of the row. The learning rate is {LEARNING_RATE} for all. With the codec `none`, \
         the server sends the parameters unencoded. With other codecs, it encodes the change of the parameters, and \
         adds the part that an encoding leaves out to the next change. *By layer* means that the codec scales each of \
         the three layers separately. The time is measured until the first round after which {:.0} % of the held-out \
         images are classified correctly; many trainings are less accurate at their end. With several seeds, figures \
         are means, with the least and the greatest value in brackets.",
        100.0 * TARGET
    );
    let mut results = Results::start(out, "codecs", "Codecs over links of a given speed", &said)?;
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    network::leave_nothing_behind()?;
    for (rate, seeds) in RATES {
        let network = network::Network::up(rate)?;
        let mut all = Vec::new();
        for candidate in CANDIDATES {
            let train = |seed| -> Result<TrainingCurve> {
                let run = network.train(tributary, &candidate, seed, ITERATIONS);
                let run = run.with_context(|| format!("{}, {rate}", candidate.name()))?;
                eprintln!("codecs, {rate}, seed {seed}: {}: {:.1} s", candidate.name(), run.seconds());
                Ok(run)
            };
            all.push(Trained { candidate, runs: (1..=seeds).map(train).collect::<Result<_>>()? });
        }
        let Some(plain) = all.first() else { continue };
        results.section(rate, "");
        let target = format!("to {:.0} %", 100.0 * TARGET);
        let header = [
            "gradients",
            "parameters",
            "into the server",
            "out of the server",
            "reduction",
            "all rounds",
            &target,
            "accuracy",
        ];
        results.table(&header, &all.iter().map(|trained| trained.cells(plain)).collect::<Vec<_>>());
        let name = format!("accuracy-{}", rate.split(' ').next().unwrap_or(rate));
        results.chart(&name, &chart(rate, &all))?;
        rows.extend(all.iter().flat_map(|trained| trained.rows(rate)));
        curves.extend(all.iter().flat_map(|trained| trained.curves(rate)));
    }
    results.section(
        "For programs",
        "The first file lists all trainings, and the second file lists their rounds.",
    );
    results.csv("trainings", &rows)?;
    results.csv("curves", &curves)?;
    results.finish()
}

impl Candidate {
    fn name(&self) -> String {
        let Self { codec, back, by_layer } = self;
        format!("gradients {codec}{}, parameters {back}", if *by_layer { " by layer" } else { "" })
    }
}

/// Returns the first point of a training at which it has reached the target.
fn reached(run: &TrainingCurve) -> Option<&CurvePoint> {
    run.curve.iter().find(|point| point.accuracy >= TARGET)
}

impl Trained {
    fn mean(&self, figure: impl Fn(&TrainingCurve) -> f64) -> f64 {
        self.runs.iter().map(figure).sum::<f64>() / self.runs.len() as f64
    }

    /// Returns the mean of a figure.
    ///
    /// With several seeds, the text also has the least and the greatest value.
    fn spread(&self, figure: impl Fn(&TrainingCurve) -> f64) -> (f64, String) {
        let figures = || self.runs.iter().map(&figure);
        let (least, most) = (figures().fold(f64::INFINITY, f64::min), figures().fold(0.0, f64::max));
        let range = if self.runs.len() > 1 { format!(" ({least:.1} to {most:.1})") } else { String::new() };
        (self.mean(&figure), range)
    }

    fn bytes(&self) -> f64 {
        self.mean(|run| (run.into_server + run.out_of_server) as f64)
    }

    fn cells(&self, plain: &Self) -> Vec<String> {
        let kib = |bytes: f64| format!("{:.0} KiB", bytes / KIB / f64::from(ITERATIONS));
        let to_target = match self.runs.iter().all(|run| reached(run).is_some()) {
            true => {
                let (mean, range) = self.spread(|run| reached(run).map_or(0.0, |point| point.seconds));
                format!("**{mean:.1} s**{range}")
            }
            false => "–".to_owned(),
        };
        let (mean, range) = self.spread(|run| 100.0 * run.accuracy());
        vec![
            format!("`{}`{}", self.candidate.codec, if self.candidate.by_layer { " by layer" } else { "" }),
            format!("`{}`", self.candidate.back),
            kib(self.mean(|run| run.into_server as f64)),
            kib(self.mean(|run| run.out_of_server as f64)),
            format!("{:.1}", plain.bytes() / self.bytes()),
            format!("{:.1} s", self.mean(TrainingCurve::seconds)),
            to_target,
            format!("{mean:.1} %{range}"),
        ]
    }

    fn rows(&self, rate: &'static str) -> impl Iterator<Item = CodecRow> {
        let Candidate { codec, back, by_layer } = self.candidate;
        (1..).zip(&self.runs).map(move |(seed, run)| CodecRow {
            rate,
            codec,
            parameters_codec: back,
            by_layer,
            seed,
            accuracy: run.accuracy(),
            seconds: run.seconds(),
            seconds_to_target: reached(run).map(|point| point.seconds),
            iterations_to_target: reached(run).map(|point| point.iteration),
            into_server: run.into_server,
            out_of_server: run.out_of_server,
        })
    }

    fn curves(&self, rate: &'static str) -> Vec<CurveRow> {
        let Candidate { codec, back, by_layer } = self.candidate;
        let mut rows = Vec::new();
        for (seed, run) in (1..).zip(&self.runs) {
            rows.extend(run.curve.iter().map(|point| CurveRow {
                rate,
                codec,
                parameters_codec: back,
                by_layer,
                seed,
                seconds: point.seconds,
                iteration: point.iteration,
                accuracy: point.accuracy,
            }));
        }
        rows
    }
}

/// The candidates in the picture. If it showed all candidates, they would hide one another.
const SHOWN: [Candidate; 8] = [
    whole("none", "none"),
    whole("casq-4-ef", "none"),
    whole("f16", "f16"),
    whole("uniform-8-ef", "uniform-8"),
    whole("one-bit-ef", "one-bit"),
    whole("top-100-ef", "top-20"),
    whole("quantile-4-ef", "quantile-4"),
    whole("casq-4-ef", "casq-4"),
];

fn chart(rate: &str, all: &[Trained]) -> Chart {
    let shown = all.iter().filter(|trained| SHOWN.contains(&trained.candidate));
    let shown = shown.filter_map(|trained| Some((trained.candidate, trained.runs.first()?)));
    let longest = shown.clone().map(|(_, run)| run.seconds()).fold(0.0, f64::max);
    let line = |(Candidate { codec, back, .. }, run): (Candidate, &TrainingCurve)| {
        let (color, dashes) = look(codec, back);
        let points = run.curve.iter().map(|point| (point.seconds, point.accuracy)).collect();
        Line { name: format!("{codec}, {back}"), color, dashes, points }
    };
    Chart {
        title: format!("Accuracy over time with links of {rate}"),
        subtitle: format!(
            "{ITERATIONS} rounds, the first seed; each line: codec of the gradients, codec of the parameters"
        ),
        across: Axis::even("seconds", 0.0, longest, |seconds| seconds.to_string()),
        up: Axis::even("", 0.0, 1.0, |share| format!("{:.0} %", 100.0 * share)),
        lines: shown.map(line).collect(),
        bars: Vec::new(),
    }
}

fn look(codec: &str, back: &str) -> (&'static str, &'static str) {
    match (codec, back) {
        ("casq-4-ef", "none") => (OURS_LIGHT, "4 3"),
        ("casq-4-ef", _) => (OURS, "none"),
        ("none", _) => (OTHERS, "none"),
        ("f16", _) => (OTHERS_LIGHT, "none"),
        ("uniform-8-ef", _) => ("#2563eb", "none"),
        ("one-bit-ef", _) => ("#7c3aed", "none"),
        ("top-100-ef", _) => ("#b45309", "none"),
        _ => ("#2563eb", "4 3"),
    }
}
