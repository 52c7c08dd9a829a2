//! Tables and pictures of the results.

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::Serialize;
use tributary_picture::{Axis, Chart, Line, OTHERS, OURS, OURS_LIGHT};

use super::Extent;
use super::contenders::Contender;
use super::speeds::UNIT;
use super::sweep::{AtRate, Swept};
use super::training::{Look, Setting, train};
use crate::results::Results;

/// The results of a contender at its best rate: means over the seeds.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    scenario: &'static str,
    contender: &'static str,
    #[serde(skip)]
    who: Contender,
    pub(crate) rate: f32,
    accuracy: f64,
    least: f64,
    most: f64,
    half_time: f64,
    time_to_target: Option<f64>,
    rate_to_target: Option<f32>,
    stale_updates: f64,
    stale_gradients: f64,
    gap: f64,
    gradients: f64,
    updates: f64,
    idle: f64,
}

/// Writes one scenario's table and pictures.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn scenario(
    results: &mut Results,
    name: &'static str,
    swept: &[Swept],
    extent: &Extent,
) -> Result<Vec<Summary>> {
    let summaries: Vec<Summary> = swept.iter().map(|swept| summary(name, swept, extent)).collect();
    let target = format!("time to {:.0} % (rate)", 100.0 * extent.target);
    let header = [
        "",
        "best rate",
        "accuracy",
        "range over the seeds",
        "accuracy at half time",
        &target,
        "stale updates",
        "stale gradients",
        "epochs apart",
        "gradients",
        "updates",
        "idle",
    ];
    results.table(&header, &summaries.iter().map(Summary::cells).collect::<Vec<_>>());
    let length = extent.length as f64 / UNIT as f64;
    let over_time = |title: &str, up: Axis, figure: fn(&Look) -> f64| Chart {
        title: format!("{title}: {name}"),
        subtitle: "Each contender at its own best learning rate; means over the seeds".to_owned(),
        across: Axis::even("steps of the fastest worker", 0.0, length, |time| time.to_string()),
        up,
        lines: lines(swept, |swept| swept.best().curve(figure)),
        bars: Vec::new(),
    };
    let accuracy = || Axis::even("", 0.0, 1.0, |share| format!("{:.0} %", 100.0 * share));
    results.chart(
        &format!("{name}-accuracy"),
        &over_time("Accuracy over time", accuracy(), |look| look.accuracy),
    )?;
    let gaps = swept.iter().flat_map(|swept| swept.best().curve(|look| look.gap as f64));
    let most = gaps.map(|(_, gap)| gap).fold(1.0, f64::max);
    let gap = Axis::even("epochs", 0.0, most, |epochs| epochs.to_string());
    results.chart(
        &format!("{name}-gap"),
        &over_time("Epochs between fastest and slowest", gap, |look| look.gap as f64),
    )?;
    let rates = swept.iter().flat_map(|swept| &swept.rates).map(|at| f64::from(at.rate));
    let (least, most) =
        rates.fold((f64::MAX, f64::MIN), |(least, most), rate| (rate.min(least), rate.max(most)));
    let sweep = Chart {
        title: format!("Final accuracy by learning rate: {name}"),
        subtitle: "Means over the seeds".to_owned(),
        across: Axis::decades("learning rate", least, most, |rate| format!("{rate:.3}")),
        up: accuracy(),
        lines: lines(swept, |swept| {
            swept.rates.iter().map(|at| (f64::from(at.rate), at.accuracy())).collect()
        }),
        bars: Vec::new(),
    };
    results.chart(&format!("{name}-rates"), &sweep)?;
    Ok(summaries)
}

fn summary(scenario: &'static str, swept: &Swept, extent: &Extent) -> Summary {
    let best: &AtRate = swept.best();
    let accuracies = best.outcomes.iter().map(|outcome| outcome.accuracy());
    let (least, most) =
        accuracies.fold((1.0, 0.0), |(least, most), one: f64| (one.min(least), one.max(most)));
    let half = |looks: &[Look]| looks.get(looks.len() / 2).map_or(0.0, |look| look.accuracy);
    let fastest = swept.fastest(extent.target);
    Summary {
        scenario,
        contender: swept.contender.name(),
        who: swept.contender,
        rate: best.rate,
        accuracy: best.accuracy(),
        least,
        most,
        half_time: best.mean(|outcome| half(&outcome.looks)),
        time_to_target: fastest.map(|(time, _)| time),
        rate_to_target: fastest.map(|(_, rate)| rate),
        stale_updates: best.mean(|outcome| outcome.stale_updates),
        stale_gradients: best.mean(|outcome| outcome.stale_gradients),
        gap: best.mean(|outcome| outcome.looks.last().map_or(0.0, |look| look.gap as f64)),
        gradients: best.mean(|outcome| outcome.gradients as f64),
        updates: best.mean(|outcome| outcome.updates as f64),
        idle: best.mean(|outcome| outcome.idle),
    }
}

impl Summary {
    fn cells(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let reached = self.time_to_target.zip(self.rate_to_target);
        vec![
            self.contender.to_owned(),
            self.rate.to_string(),
            format!("**{} %**", percent(self.accuracy)),
            format!("{} to {}", percent(self.least), percent(self.most)),
            format!("{} %", percent(self.half_time)),
            reached.map_or("–".to_owned(), |(time, rate)| format!("{time:.0} ({rate})")),
            format!("{:.2}", self.stale_updates),
            format!("{:.2}", self.stale_gradients),
            format!("{:.1}", self.gap),
            format!("{:.0}", self.gradients),
            format!("{:.0}", self.updates),
            format!("{} %", percent(self.idle)),
        ]
    }
}

fn lines(swept: &[Swept], points: impl Fn(&Swept) -> Vec<(f64, f64)>) -> Vec<Line> {
    swept.iter().map(|swept| line(swept.contender, points(swept))).collect()
}

fn line(contender: Contender, points: Vec<(f64, f64)>) -> Line {
    let (color, dashes) = look(contender);
    Line { name: contender.name().to_owned(), color, dashes, points }
}

fn look(contender: Contender) -> (&'static str, &'static str) {
    const SYNCHRONOUS: &str = "#2563eb";
    const ASYNCHRONOUS: &str = "#b45309";
    const BOUNDED: &str = "#7c3aed";
    match contender {
        Contender::Bsp => (SYNCHRONOUS, "none"),
        Contender::BspBatches => (SYNCHRONOUS, "4 3"),
        Contender::Asp => (ASYNCHRONOUS, "none"),
        Contender::Ssp => (BOUNDED, "none"),
        Contender::Dssp => (BOUNDED, "4 3"),
        Contender::SyncSwitch => (ASYNCHRONOUS, "4 3"),
        Contender::LocalSgd => (OTHERS, "none"),
        Contender::A2s => (OURS, "none"),
        Contender::A2sRecent => (OURS_LIGHT, "4 3"),
    }
}

/// The contenders whose trainings also run for longer.
const FOLLOWED: [Contender; 4] = [Contender::Bsp, Contender::Asp, Contender::A2s, Contender::A2sRecent];

/// A point of a long run, as a row for programs.
#[derive(Debug, Serialize)]
struct LongRow {
    contender: &'static str,
    rate: f32,
    time: f64,
    accuracy: f64,
    gap: u64,
    group: usize,
    gradients: u64,
}

/// Trains some contenders for longer, at their best rates, and shows how the synchronous group changes.
///
/// # Errors
/// A training cannot continue, or a file cannot be written.
pub(crate) fn long_run(results: &mut Results, setting: &Setting<'_>, summaries: &[Summary]) -> Result<()> {
    let followed = FOLLOWED.map(|contender| {
        let best = summaries.iter().find(|summary| summary.who == contender);
        best.map(|summary| (contender, summary.rate)).context("a contender has no summary")
    });
    let followed = followed.into_iter().collect::<Result<Vec<_>>>()?;
    let outcomes = followed.par_iter().map(|&(contender, rate)| train(setting, contender, rate, 1));
    let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    let length = setting.length as f64 / UNIT as f64;
    let said = format!(
        "The study *lasting* again, for {length:.0} steps of the fastest worker and with one seed. Published A2S \
         ranks workers by their epochs since the start. Its group then grows until it contains all workers except the \
         slowest: its workers wait for each other as under BSP, and fewer gradients are used. If workers are ranked \
         by their epochs since the last ranking (`a2s-recent`), the group stays as large as the workers' speeds make \
         it."
    );
    results.section("In the long run", &said);
    let chart = |title: &str, up: Axis, figure: fn(&Look) -> f64, over: &[Contender]| Chart {
        title: title.to_owned(),
        subtitle: "One seed, each at its own best learning rate".to_owned(),
        across: Axis::even("steps of the fastest worker", 0.0, length, |time| time.to_string()),
        up,
        lines: followed
            .iter()
            .zip(&outcomes)
            .filter(|((contender, _), _)| over.contains(contender))
            .map(|(&(contender, _), outcome)| {
                line(contender, outcome.looks.iter().map(|look| (look.time, figure(look))).collect())
            })
            .collect(),
        bars: Vec::new(),
    };
    let workers = Axis::even("workers", 0.0, 8.0, |workers| workers.to_string());
    let groups = [Contender::A2s, Contender::A2sRecent];
    results
        .chart("long-group", &chart("Workers in A2S's group", workers, |look| look.group as f64, &groups))?;
    let rate = Axis::even("", 0.0, 6.0, |gradients| gradients.to_string());
    let per_step = |look: &Look| look.gradients as f64 / look.time;
    let title = "Gradients used per step of the fastest worker, mean since the start";
    results.chart("long-gradients", &chart(title, rate, per_step, &FOLLOWED))?;
    let accuracy = Axis::even("", 0.8, 1.0, |share| format!("{:.0} %", 100.0 * share));
    results.chart(
        "long-accuracy",
        &chart("Accuracy in the long run", accuracy, |look| look.accuracy, &FOLLOWED),
    )?;
    let rows: Vec<LongRow> = followed
        .iter()
        .zip(&outcomes)
        .flat_map(|(&(contender, rate), outcome)| {
            outcome.looks.iter().map(move |look| LongRow {
                contender: contender.name(),
                rate,
                time: look.time,
                accuracy: look.accuracy,
                gap: look.gap,
                group: look.group,
                gradients: look.gradients,
            })
        })
        .collect();
    results.csv("long", &rows)
}
