//! Codecs by the time that a training takes over links of a given speed: both ways of every value counted, and every codec
//! with error feedback that can have it.

mod network;

use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use tributary_picture::{Axis, Chart, Line, OTHERS, OTHERS_LIGHT, OURS, OURS_LIGHT};

use crate::results::Results;
use network::{Place, Run};

/// What gradients are encoded with, and what parameters are on their way back.
const CANDIDATES: [(&str, &str); 21] = [
    ("none", "none"),
    ("f16", "none"),
    ("uniform-8-ef", "none"),
    ("uniform-2-ef", "none"),
    ("terngrad", "none"),
    ("terngrad-ef", "none"),
    ("one-bit-ef", "none"),
    ("top-100-ef", "none"),
    ("quantile-4-ef", "none"),
    ("casq-4", "none"),
    ("casq-4-ef", "none"),
    ("casq-8-ef", "none"),
    ("f16", "f16"),
    ("uniform-8-ef", "uniform-8"),
    ("terngrad-ef", "uniform-8"),
    ("one-bit-ef", "uniform-8"),
    ("top-100-ef", "top-10"),
    ("quantile-4-ef", "quantile-16"),
    ("casq-8-ef", "casq-8"),
    ("casq-4-ef", "casq-8"),
    ("casq-4-ef", "casq-4"),
];
const RATES: [&str; 2] = ["50 Mbit/s", "200 Mbit/s"];
const ITERATIONS: u32 = 60;
/// An accuracy that the training without a codec reaches well before its end.
const TARGET: f64 = 0.94;
const KIB: f64 = 1024.0;

/// One training, for programs.
#[derive(Debug, Serialize)]
struct Row {
    rate: &'static str,
    codec: &'static str,
    parameters_codec: &'static str,
    accuracy: f64,
    seconds: f64,
    seconds_to_target: Option<f64>,
    iterations_to_target: Option<u32>,
    into_server: u64,
    out_of_server: u64,
    round_trip_gain: f64,
}

/// A place on a training's way, for programs.
#[derive(Debug, Serialize)]
struct CurveRow {
    rate: &'static str,
    codec: &'static str,
    parameters_codec: &'static str,
    seconds: f64,
    iteration: u32,
    accuracy: f64,
}

/// Trains with every candidate over every speed of links.
///
/// # Errors
/// No root, a training that fails, or a file that cannot be written.
pub(crate) fn study(tributary: &Path, out: &Path) -> Result<()> {
    let said = format!(
        "Eight workers train the demo's network (100,234 parameters) over a parameter server for {ITERATIONS} synchronous \
         rounds, each node in a network namespace of its own, all links as fast as said and joined by one plain switch. \
         Every time is measured, from the first step to the update, over real TCP; the server's link is the bottleneck. \
         Bytes are those of whole frames on it, in one round of all workers, up and down. *Times less* is of both ways \
         together. Parameters come back as they are, or encoded as what has changed; then what a code leaves out comes \
         later, whatever the codec. Time is to {:.0} % of held-out images. One training each, all from the same seed.",
        100.0 * TARGET
    );
    let mut results = Results::start(out, "codecs", "Codecs over links of a given speed", &said)?;
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    for rate in RATES {
        let network = network::Network::up(rate)?;
        let mut runs = Vec::new();
        for (codec, parameters_codec) in CANDIDATES {
            let run = network.train(tributary, codec, parameters_codec, ITERATIONS);
            let run = run.with_context(|| format!("{codec}, {parameters_codec} back, {rate}"))?;
            eprintln!("codecs, {rate}: {codec}, {parameters_codec} back: {:.1} s", run.seconds());
            runs.push((codec, parameters_codec, run));
        }
        let Some((_, _, plain)) = runs.first() else { continue };
        let own: Vec<Row> =
            runs.iter().map(|(codec, back, run)| row(rate, codec, back, run, plain)).collect();
        results.section(rate, "");
        let target = format!("to {:.0} %", 100.0 * TARGET);
        let header = [
            "gradients",
            "parameters",
            "into the server",
            "out of it",
            "times less",
            "all rounds",
            &target,
            "accuracy",
        ];
        results.table(&header, &own.iter().map(Row::cells).collect::<Vec<_>>());
        let name = format!("accuracy-{}", rate.split(' ').next().unwrap_or(rate));
        results.chart(&name, &chart(rate, &runs))?;
        rows.extend(own);
        for (codec, parameters_codec, run) in &runs {
            let place = |place: &Place| CurveRow {
                rate,
                codec,
                parameters_codec,
                seconds: place.seconds,
                iteration: place.iteration,
                accuracy: place.accuracy,
            };
            curves.extend(run.places.iter().map(place));
        }
    }
    results.section("For programs", "Every training, and every round of it.");
    results.csv("trainings", &rows)?;
    results.csv("curves", &curves)?;
    results.finish()
}

fn row(
    rate: &'static str,
    codec: &'static str,
    parameters_codec: &'static str,
    run: &Run,
    plain: &Run,
) -> Row {
    let reached = run.places.iter().find(|place| place.accuracy >= TARGET);
    Row {
        rate,
        codec,
        parameters_codec,
        accuracy: run.accuracy(),
        seconds: run.seconds(),
        seconds_to_target: reached.map(|place| place.seconds),
        iterations_to_target: reached.map(|place| place.iteration),
        into_server: run.into_server,
        out_of_server: run.out_of_server,
        round_trip_gain: plain.bytes() as f64 / run.bytes() as f64,
    }
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let kib = |bytes: u64| format!("{:.0} KiB", bytes as f64 / KIB / f64::from(ITERATIONS));
        vec![
            format!("`{}`", self.codec),
            format!("`{}`", self.parameters_codec),
            kib(self.into_server),
            kib(self.out_of_server),
            format!("{:.1}", self.round_trip_gain),
            format!("{:.1} s", self.seconds),
            self.seconds_to_target.map_or("–".to_owned(), |seconds| format!("**{seconds:.1} s**")),
            format!("{:.1} %", 100.0 * self.accuracy),
        ]
    }
}

/// Whom the picture shows: all of them would hide one another.
const SHOWN: [(&str, &str); 8] = [
    ("none", "none"),
    ("casq-4-ef", "none"),
    ("f16", "f16"),
    ("uniform-8-ef", "uniform-8"),
    ("one-bit-ef", "uniform-8"),
    ("top-100-ef", "top-10"),
    ("terngrad-ef", "uniform-8"),
    ("casq-4-ef", "casq-8"),
];

fn chart(rate: &str, runs: &[(&'static str, &'static str, Run)]) -> Chart {
    let shown = runs.iter().filter(|(codec, back, _)| SHOWN.contains(&(codec, back)));
    let longest = shown.clone().map(|(_, _, run)| run.seconds()).fold(0.0, f64::max);
    let line = |(codec, back, run): &(&'static str, &'static str, Run)| {
        let (color, dashes) = look(codec, back);
        let points = run.places.iter().map(|place| (place.seconds, place.accuracy)).collect();
        Line { name: format!("{codec}, {back}"), color, dashes, points }
    };
    Chart {
        title: format!("Accuracy over time with links of {rate}"),
        subtitle: format!("{ITERATIONS} rounds; codec of gradients, codec of parameters on their way back"),
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
