//! One training on a virtual clock.
//!
//! It uses the server's own policies, real gradients, and workers with given speeds.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tributary_ps::optimizer::{Optimizer, OptimizerKind};
use tributary_ps::policy::{Action, Policy, WeightedGradient, Worker};
use tributary_ps::server::JobSpec;
use tributary_trainer::Shards;

use super::contenders::Contender;
use super::speeds::{Speeds, Time, UNIT};
use crate::workload::Workload;

/// The settings of a training.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) workload: &'a dyn Workload,
    pub(crate) speeds: Speeds,
    pub(crate) shards: &'a Shards,
    /// Number of samples of one gradient.
    pub(crate) batch: usize,
    /// The server's optimizer. Workers that do several local steps use it locally, too.
    pub(crate) optimizer: OptimizerKind,
    /// Iterations of one worker that make an epoch.
    pub(crate) epoch: NonZeroU64,
    /// The duration of the training.
    pub(crate) length: Time,
    /// The number of evaluations of the model during the training.
    pub(crate) looks: u64,
}

/// A point of a training's curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// The time, in steps of the fastest worker.
    pub(crate) time: f64,
    /// The accuracy on held-out data, 0 to 1.
    pub(crate) accuracy: f64,
    /// The number of epochs by which the fastest worker is ahead of the slowest.
    pub(crate) gap: u64,
    /// Number of workers in the synchronous group.
    pub(crate) group: usize,
    /// The number of gradients used up to this point.
    pub(crate) gradients: u64,
}

/// The result of a training.
#[derive(Debug, Clone)]
pub(crate) struct TrainingOutcome {
    pub(crate) looks: Vec<Look>,
    /// Mean number of updates between a worker's pull and the use of its gradient.
    pub(crate) stale_updates: f64,
    /// Mean number of gradients in these updates.
    pub(crate) stale_gradients: f64,
    /// Number of gradients that were used.
    pub(crate) gradients: u64,
    /// Number of updates of the parameters.
    pub(crate) updates: u64,
    /// The share of the time in which workers wait.
    pub(crate) idle: f64,
}

impl TrainingOutcome {
    /// Returns the final accuracy.
    pub(crate) fn accuracy(&self) -> f64 {
        self.looks.last().map_or(0.0, |look| look.accuracy)
    }

    /// Returns the time of the first evaluation with at least this accuracy.
    pub(crate) fn time_to(&self, accuracy: f64) -> Option<f64> {
        self.looks.iter().find(|look| look.accuracy >= accuracy).map(|look| look.time)
    }
}

/// A gradient, or the sum of a worker's local steps, that the worker sends.
///
/// `updates` and `gradients` are the numbers of updates and gradients in the parameters with which the worker
/// began.
struct Gradient {
    values: Vec<f32>,
    updates: u64,
    gradients: u64,
}

/// Runs one training.
///
/// # Errors
/// A gradient cannot be computed.
pub(crate) fn train(
    setting: &Setting<'_>,
    contender: Contender,
    rate: f32,
    seed: u64,
) -> Result<TrainingOutcome> {
    Training::new(setting, contender, rate, seed)?.run()
}

struct Training<'a> {
    setting: &'a Setting<'a>,
    contender: Contender,
    policy: Box<dyn Policy>,
    rate: f32,
    parameters: Vec<f32>,
    optimizer: Box<dyn Optimizer>,
    /// The workers' optimizers for local steps; empty if workers do one step at a time.
    local_optimizers: Vec<Box<dyn Optimizer>>,
    samples: Vec<Samples<'a>>,
    /// Number of gradients that each worker has begun.
    steps: Vec<u64>,
    /// The gradients that computing workers will send, by the time of arrival and the worker.
    computing: BTreeMap<(Time, Worker), Gradient>,
    arrived: BTreeMap<Worker, Gradient>,
    updates: u64,
    gradients: u64,
    stale_updates: u64,
    stale_gradients: u64,
    busy: Time,
}

impl<'a> Training<'a> {
    fn new(setting: &'a Setting<'a>, contender: Contender, rate: f32, seed: u64) -> Result<Self> {
        // The slowest worker needs this time, now or later, and so does a round of BSP.
        let round = 4 * UNIT;
        let quarter = (setting.length / round / setting.epoch.get() / 4).max(1);
        let workers = 0..Speeds::WORKERS;
        let parameters = setting.workload.initial(seed)?;
        let optimizer = || setting.optimizer.build(parameters.len(), None);
        let own = if contender.local_steps() > 1 { workers.clone() } else { 0..0 };
        Ok(Self {
            setting,
            contender,
            policy: contender.policy(setting.epoch, quarter),
            rate,
            optimizer: optimizer()?,
            local_optimizers: own.map(|_| optimizer()).collect::<Result<_, _>>()?,
            parameters,
            samples: workers.map(|worker| Samples::new(setting.shards.of(worker), seed, worker)).collect(),
            steps: vec![0; usize::from(Speeds::WORKERS)],
            computing: BTreeMap::new(),
            arrived: BTreeMap::new(),
            updates: 0,
            gradients: 0,
            stale_updates: 0,
            stale_gradients: 0,
            busy: 0,
        })
    }

    fn run(mut self) -> Result<TrainingOutcome> {
        let start = Instant::now();
        for worker in 0..Speeds::WORKERS {
            let actions = self.policy.join(worker, 0);
            self.settle(actions, 0)?;
        }
        let mut looks = Vec::new();
        let every = (self.setting.length / self.setting.looks.max(1)).max(1);
        let mut next_look = every;
        loop {
            let next = self.computing.first_key_value().map_or(Time::MAX, |(&(time, _), _)| time);
            while next_look < next && next_look <= self.setting.length {
                looks.push(self.look(next_look)?);
                next_look += every;
            }
            if next > self.setting.length {
                break;
            }
            let Some(((now, worker), gradient)) = self.computing.pop_first() else { break };
            self.arrived.insert(worker, gradient);
            let actions = self.policy.arrive(worker, start + Duration::from_millis(now));
            self.settle(actions, now)?;
        }
        let used = self.gradients.max(1) as f64;
        let all = (self.setting.length * Time::from(Speeds::WORKERS)) as f64;
        Ok(TrainingOutcome {
            looks,
            stale_updates: self.stale_updates as f64 / used,
            stale_gradients: self.stale_gradients as f64 / used,
            gradients: self.gradients * self.contender.local_steps(),
            updates: self.updates,
            idle: 1.0 - self.busy as f64 / all,
        })
    }

    fn look(&self, now: Time) -> Result<Look> {
        let progress = self.policy.progress();
        let fastest = progress.workers().map(|worker| progress.epoch(worker)).max().unwrap_or(0);
        Ok(Look {
            time: now as f64 / UNIT as f64,
            accuracy: self.setting.workload.accuracy(&self.parameters)?,
            gap: fastest - progress.slowest_epoch(),
            group: self.policy.group().len(),
            gradients: self.gradients * self.contender.local_steps(),
        })
    }

    fn settle(&mut self, actions: Vec<Action>, now: Time) -> Result<()> {
        for action in actions {
            match action {
                Action::Apply(parts) => {
                    let mean = self.mean(&parts)?;
                    if self.local_optimizers.is_empty() {
                        let rate = self.present_rate();
                        self.optimizer.update(&mut self.parameters, &mean, rate);
                    } else {
                        add(&mut self.parameters, &mean, 1.0);
                    }
                    self.updates += 1;
                }
                Action::Release(worker) => self.begin(worker, now)?,
            }
        }
        Ok(())
    }

    /// Returns the weighted mean of the gradients that these workers have sent.
    fn mean(&mut self, parts: &[WeightedGradient]) -> Result<Vec<f32>> {
        let total: u64 = parts.iter().map(|part| part.weight).sum();
        let contained = self.gradients;
        let mut mean = vec![0.0; self.parameters.len()];
        for part in parts {
            let gradient = self.arrived.remove(&part.worker).context("applied twice")?;
            self.stale_updates += self.updates - gradient.updates;
            self.stale_gradients += contained - gradient.gradients;
            self.gradients += 1;
            add(&mut mean, &gradient.values, (part.weight as f64 / total as f64) as f32);
        }
        Ok(mean)
    }

    fn present_rate(&self) -> f32 {
        self.policy.rate() * self.decayed_rate()
    }

    fn decayed_rate(&self) -> f32 {
        let epochs = self.policy.progress().slowest_epoch();
        self.rate * JobSpec::DEFAULT_DECAY.powi(i32::try_from(epochs).unwrap_or(i32::MAX))
    }

    /// Computes a worker's next gradient. It arrives after the time that the worker would need for it.
    fn begin(&mut self, worker: Worker, now: Time) -> Result<()> {
        let place = usize::from(worker);
        let mut done = now;
        let mut values = vec![0.0; self.parameters.len()];
        if self.contender.local_steps() > 1 {
            values.copy_from_slice(&self.parameters);
            let mut gradient = vec![0.0; values.len()];
            let rate = self.decayed_rate();
            for _ in 0..self.contender.local_steps() {
                self.compute(worker, self.setting.batch, &values, &mut gradient)?;
                self.local_optimizers[place].update(&mut values, &gradient, rate);
                done += self.setting.speeds.step_time(worker, self.steps[place], done);
                self.steps[place] += 1;
            }
            add(&mut values, &self.parameters, -1.0);
        } else {
            let batch = self.batch(worker, now);
            let parameters = std::mem::take(&mut self.parameters);
            let computed = self.compute(worker, batch, &parameters, &mut values);
            self.parameters = parameters;
            computed?;
            // The gradient is a mean over its samples, so its weight is in proportion to their number.
            let weight = batch as f32 / self.setting.batch as f32;
            values.iter_mut().for_each(|value| *value *= weight);
            let whole = self.setting.speeds.step_time(worker, self.steps[place], now);
            // The time of a step is in proportion to its number of samples.
            done += (whole * batch as Time / self.setting.batch as Time).max(1);
            self.steps[place] += 1;
        }
        let end = self.setting.length;
        self.busy += done.min(end) - now.min(end);
        let gradient = Gradient { values, updates: self.updates, gradients: self.gradients };
        self.computing.insert((done, worker), gradient);
        Ok(())
    }

    fn compute(&mut self, worker: Worker, batch: usize, at: &[f32], out: &mut [f32]) -> Result<()> {
        let samples = self.samples[usize::from(worker)].next(batch);
        self.setting.workload.gradient(at, &samples, out)?;
        if out.iter().any(|value| !value.is_finite()) {
            // The model has diverged, which its accuracy shows.
            out.fill(0.0);
        }
        Ok(())
    }

    /// Returns the number of samples of a worker's next gradient.
    ///
    /// If batches follow speeds, all workers finish at the same time, and the total number of samples stays the same.
    fn batch(&self, worker: Worker, now: Time) -> usize {
        if !self.contender.batches_follow_speed() {
            return self.setting.batch;
        }
        let speed = |worker: Worker| {
            let step = self.steps[usize::from(worker)].saturating_sub(1);
            1.0 / self.setting.speeds.step_time(worker, step, now) as f64
        };
        let total: f64 = (0..Speeds::WORKERS).map(speed).sum();
        let all = self.setting.batch as f64 * f64::from(Speeds::WORKERS);
        ((all * speed(worker) / total).round() as usize).max(1)
    }
}

/// Computes `sums += factor · values`.
fn add(sums: &mut [f32], values: &[f32], factor: f32) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}

/// The order of a worker's samples. Each epoch has a new order of the worker's shard.
struct Samples<'a> {
    shard: &'a [usize],
    random: ChaCha8Rng,
    order: Vec<usize>,
}

impl<'a> Samples<'a> {
    fn new(shard: &'a [usize], seed: u64, worker: Worker) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::from(worker) + 1);
        Self { shard, random, order: Vec::new() }
    }

    fn next(&mut self, count: usize) -> Vec<usize> {
        let mut samples = Vec::with_capacity(count);
        while samples.len() < count && !self.shard.is_empty() {
            if self.order.is_empty() {
                self.order = self.shard.to_vec();
                self.order.shuffle(&mut self.random);
            }
            let take = (count - samples.len()).min(self.order.len());
            samples.extend(self.order.drain(self.order.len() - take..));
        }
        samples
    }
}
