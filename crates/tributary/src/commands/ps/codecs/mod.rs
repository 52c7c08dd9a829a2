//! `tributary ps compare codecs`: measures the savings and errors of each codec on gradients of a real
//! training.

mod candidates;
mod measure;
mod picture;
mod report;
mod training;

use anyhow::Result;
use candidates::{Candidate, candidates};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use report::{CodecReport, CodecRow, Setting};
use tributary_cli::output;
use tributary_trainer::{Digits, Training};

use super::gates;
use measure::{Gradients, measure};
use tributary_picture::PictureFile;

/// Trains the demo's network once for each codec and seed. Every worker's gradients are encoded and
/// decoded, as on their way to a parameter server. The codecs are measured on the gradients of the f32 training.
/// Exits with 1 if casq-4 misses one of its limits.
#[derive(Debug, Clone, Args)]
pub(crate) struct CodecsArgs {
    /// Workers that share each mini-batch
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// Rounds of each training
    #[arg(long, default_value_t = Training::DEFAULT_ROUNDS, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Trainings of each codec, from different initial weights; accuracies are their means
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// Also draw the comparison
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    plot: Option<PictureFile>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// Compares the codecs and prints the results.
///
/// # Errors
/// A gate failed.
pub(crate) fn run(args: &CodecsArgs) -> Result<()> {
    args.plot.as_ref().map_or(Ok(()), PictureFile::check)?;
    let digits = Digits::embedded()?;
    let candidates = candidates();
    let progress = progress(candidates.len() as u64 * args.seeds * u64::from(args.rounds));
    let accuracies = accuracies(args, &digits, &candidates, &progress);
    progress.set_message("measuring");
    let gradients = Gradients::of(&Training::new(args.workers, args.rounds, 0)?, &digits)?;
    let rows = candidates
        .iter()
        .zip(accuracies?)
        .map(|(candidate, accuracy)| {
            Ok(CodecRow::new(candidate.name, measure(candidate, &gradients)?, gradients.values(), accuracy))
        })
        .collect::<Result<Vec<_>>>();
    progress.finish_and_clear();
    let setting = Setting { workers: args.workers, rounds: args.rounds, seeds: args.seeds };
    let report = CodecReport::new(setting, rows?)?;
    if args.json {
        output::print(serde_json::to_string_pretty(&report)?)?;
    } else {
        output::print(report.text())?;
    }
    if let Some(file) = &args.plot {
        file.write(&picture::picture(&report))?;
    }
    gates::check(&report.gates)
}

/// Returns each candidate's mean accuracy over all seeds.
fn accuracies(
    args: &CodecsArgs,
    digits: &Digits,
    candidates: &[Candidate],
    progress: &ProgressBar,
) -> Result<Vec<f64>> {
    let one = |candidate: &Candidate, seed| -> Result<f64> {
        let training = Training::new(args.workers, args.rounds, seed)?;
        training::accuracy(&training, digits, candidate, || progress.inc(1))
    };
    let mean = |candidate| -> Result<f64> {
        let accuracies = (0..args.seeds).into_par_iter().map(|seed| one(candidate, seed));
        Ok(accuracies.collect::<Result<Vec<_>>>()?.iter().sum::<f64>() / args.seeds as f64)
    };
    candidates.par_iter().map(mean).collect()
}

fn progress(rounds: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} rounds");
    let bar = ProgressBar::new(rounds).with_message("training");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
