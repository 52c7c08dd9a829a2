//! `tributary ps worker`: a training process that uses a parameter server on any host.

use std::num::{NonZeroU16, NonZeroU64};
use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tributary_cli::output;
use tributary_client::{Agent, Observer, TrainingOptions};
use tributary_codec::Kind;
use tributary_ps::client::{ClientOptions, Waiting};
use tributary_trainer::{Digits, Model, PARAMETERS, RemoteLearner, Share, Training};
use tributary_transport::Remote;

use super::curve::Curve;
use super::learner::Learner;
use super::options;
use super::way::{Position, Way};
use crate::daemons::service::log;
use crate::options::remote;
use crate::options::tls::ClientTlsArgs;

/// The interval at which a worker reports a wait if it receives no reason for it.
const SAID_EVERY: Duration = Duration::from_secs(5);

/// Trains the demo's network as one worker of a job on running parameter servers (`tributary server
/// --ps-listen`). If a server restarts, the worker waits for it.
#[derive(Debug, Clone, Args)]
#[command(override_usage = "tributary ps worker [OPTIONS] --server <HOST:PORT> --job <JOB>
           --worker <WORKER> --workers <WORKERS> --iterations <ITERATIONS>")]
pub(super) struct WorkerArgs {
    /// Address of the parameter server; may be repeated: each server then holds a range of the parameters,
    /// in this order
    #[arg(long, value_name = "HOST:PORT", required = true)]
    server: Vec<String>,

    /// The job's name
    #[arg(long)]
    job: String,

    /// File with the job's token, if it has one
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// This worker's rank in the job, from 0
    #[arg(long)]
    worker: u16,

    /// Number of workers of the job, which share the images
    #[arg(long)]
    workers: NonZeroU16,

    /// Iterations in total, including those done before
    #[arg(long)]
    iterations: NonZeroU64,

    /// The least time for a gradient, in seconds, to emulate a slow worker [default: no minimum]
    #[arg(long, value_name = "SECONDS", value_parser = options::seconds)]
    step_time: Option<Duration>,

    #[arg(long, help = options::codecs(), default_value = "none", value_parser = options::codec)]
    codec: Kind,

    /// Codec of the parameters that the server sends to workers
    #[arg(long, value_name = "CODEC", default_value = "none", value_parser = options::codec)]
    parameters_codec: Kind,

    /// Send each layer's gradient separately, so that the codec scales each layer independently
    #[arg(long)]
    by_layer: bool,

    /// Time for which a server may be unreachable before this worker stops, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = options::seconds)]
    patience: Duration,

    /// Seed of the initial weights and of the order of the images: the same on all workers
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Unix socket of this host's agent, which then communicates with the servers for this worker
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["tls_ca", "tls_cert", "tls_key"])]
    agent: Option<PathBuf>,

    #[command(flatten)]
    tls: ClientTlsArgs,

    /// Also write the time of each iteration, and the model's accuracy after it, as CSV
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The results of a worker.
#[derive(Debug, Serialize)]
struct WorkerReport {
    worker: u16,
    /// The number of this worker's gradients that the last parameters contain.
    iterations: u64,
    /// The number of gradients that the worker has computed. It exceeds `iterations` if a server has
    /// restarted from its checkpoint.
    computed: u64,
    /// The number of updates, by all workers' gradients, that the last parameters contain.
    updates: u64,
    /// Accuracy on held-out images, from 0 to 1.
    accuracy: f64,
    /// The number of iterations without a finite gradient, because the model had diverged.
    skipped: u64,
    /// SHA-256 of the last parameters as little-endian f32.
    parameters: String,
}

/// Takes part in the training until all iterations are done.
///
/// # Errors
/// A server does not answer for too long, a server refuses, or the model has diverged.
pub(super) fn run(args: &WorkerArgs) -> Result<()> {
    log::warnings()?;
    let runtime = Runtime::new().context("cannot start the threads that a worker needs")?;
    let report = runtime.block_on(train(args))?;
    if args.json {
        output::print(serde_json::to_string(&report)?)?;
    } else {
        output::print(format_args!(
            "worker {}: {} iterations done ({} computed), accuracy {:.2} %",
            report.worker,
            report.iterations,
            report.computed,
            100.0 * report.accuracy
        ))?;
    }
    ensure!(
        report.skipped == 0,
        "the model has diverged: in {} iterations its gradient was not finite. Start the job again with a lower \
         learning-rate",
        report.skipped
    );
    Ok(())
}

async fn train(args: &WorkerArgs) -> Result<WorkerReport> {
    let digits = Digits::embedded()?;
    let training = Training::new(args.workers.get(), 1, args.seed)?;
    let remote = RemoteLearner::new(&training, Arc::clone(&digits.training), Share::Worker(args.worker))?;
    let learner = Learner::new(remote, args.seed);
    let progress = ProgressBar::new(args.iterations.get()).with_message("training");
    let parts =
        if args.by_layer { Model::layers().to_vec() } else { std::iter::once(0..PARAMETERS).collect() };
    let (said, waits) = watch::channel(String::new());
    let mut waited = Waited { progress: &progress, waits };
    let (mut way, mut position) = waited.by(join(args, said, &learner.initial(), &parts)).await?;
    let (mut computed, mut skipped) = (0, 0);
    let mut curve = args.curve.as_deref().map(Curve::start);
    while position.iteration < args.iterations.get() {
        progress.set_position(position.iteration);
        let begun = Instant::now();
        let gradient = learner.gradient(position.iteration, position.parameters)?.unwrap_or_else(|| {
            skipped += 1;
            Learner::nothing()
        });
        computed += 1;
        sleep_until(begun + args.step_time.unwrap_or_default()).await;
        position = waited.by(way.push(&gradient, &parts)).await?;
        curve.iter_mut().for_each(|curve| curve.add(&position));
    }
    progress.finish_and_clear();
    curve.map_or(Ok(()), |curve| curve.write(&digits))?;
    let mut hash = Sha256::new();
    position.parameters.iter().for_each(|value| hash.update(value.to_le_bytes()));
    Ok(WorkerReport {
        worker: args.worker,
        iterations: position.iteration,
        computed,
        updates: position.updates,
        skipped,
        accuracy: Model::from_parameters(position.parameters)?.accuracy(&digits.held_out),
        parameters: hex::encode(hash.finalize()),
    })
}

/// Reports the waits of a worker to the user.
struct Waited<'a> {
    progress: &'a ProgressBar,
    /// The last reason for the worker's wait.
    waits: watch::Receiver<String>,
}

impl Waited<'_> {
    /// Waits for the servers' next step. Reports each reason for the wait, or after five seconds without
    /// one, that none has arrived.
    async fn by<T>(&mut self, step: impl Future<Output = Result<T>>) -> Result<T> {
        let (begun, mut step) = (Instant::now(), pin!(step));
        let mut quiet = interval_at(begun + SAID_EVERY, SAID_EVERY);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The last reason belongs to an earlier wait.
        self.waits.mark_unchanged();
        loop {
            let what = tokio::select! {
                biased;
                step = &mut step => return step,
                Ok(()) = self.waits.changed() => {
                    // The servers send the next reason in five seconds, so allow twice that time.
                    quiet.reset_after(2 * SAID_EVERY);
                    self.waits.borrow_and_update().clone()
                }
                _ = quiet.tick() => "a server that sends nothing".to_owned(),
            };
            let seconds = begun.elapsed().as_secs();
            self.progress
                .suspend(|| output::complain(format_args!("no step for {seconds} s: waiting for {what}")));
        }
    }
}

async fn join(
    args: &WorkerArgs,
    said: watch::Sender<String>,
    initial: &[f32],
    parts: &[Range<usize>],
) -> Result<(Way, Position)> {
    let token = args.token_file.as_deref().map(remote::read_token).transpose()?.unwrap_or_default();
    // The seed determines each worker's share of the images.
    let settings = format!("seed {}", args.seed);
    if let Some(socket) = &args.agent {
        let options = TrainingOptions {
            token,
            workers: Some(args.workers),
            settings,
            codec: args.codec.to_string(),
            parameters_codec: args.parameters_codec.to_string(),
            patience: Some(args.patience),
            observer: Observer::new(move |waiting| drop(said.send_replace(waiting.what.clone()))),
            ..TrainingOptions::new(args.server.clone(), &args.job, args.worker)
        };
        return Way::through(&Agent::connect(socket).await?, options, initial, parts).await;
    }
    let tls = args.tls.load()?;
    let servers = args.server.iter().map(|address| Remote::parameter_server(address, tls.clone()));
    let (waits, mut waiting) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(Waiting { what, .. }) = waiting.recv().await {
            said.send_replace(what);
        }
    });
    let options = ClientOptions {
        token,
        workers: Some(args.workers),
        settings,
        waits: Some(waits),
        codec: args.codec,
        parameters_codec: args.parameters_codec,
        patience: args.patience,
        ..ClientOptions::new(servers.collect::<Result<_, _>>()?, &args.job, args.worker)
    };
    Way::by_itself(options, initial).await
}
