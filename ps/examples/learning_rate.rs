//! Where the policies part: accuracy, staleness and iterations on a virtual clock, over learning rates.
//!
//! The same policies as the server's, the trainer's network, and workers that are as fast as the comparison's.
//! `tributary ps compare policies` chose its learning rate by this.
//!
//! `cargo run --release -p tributary-ps --example learning_rate -- [UNITS] [EPOCH] [RATE]...`

use std::collections::BTreeMap;
use std::env;
use std::num::NonZeroU64;
use std::sync::Arc;

use tributary_ps::policy::{A2s, Action, Asp, Bsp, Policy, Ssp, Worker};
use tributary_trainer::{Digits, Model, PARAMETERS, RemoteLearner, Share, Training};

/// Step times in hundredths of the fastest worker's.
const STEPS: [u64; 8] = [100, 100, 110, 120, 150, 200, 300, 400];
const UNIT: u64 = 100;
const DECAY: f32 = 0.99;
const SEEDS: u64 = 3;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let arguments: Vec<f64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let number = |index: usize, default: f64| arguments.get(index).copied().unwrap_or(default);
    let (units, epoch) = (number(0, 400.0) as u64, number(1, 10.0) as u64);
    let epoch = NonZeroU64::new(epoch).ok_or("an epoch has at least one iteration")?;
    let rates = arguments.get(2..).filter(|rates| !rates.is_empty()).unwrap_or(&[0.1, 0.2, 0.4, 0.8]);
    let digits = Digits::embedded()?;
    println!("rate   policy  accuracy  staleness  iterations");
    for &rate in rates {
        for name in ["bsp", "asp", "ssp", "a2s"] {
            let (mut accuracy, mut staleness, mut iterations) = (Vec::new(), 0.0, 0);
            for seed in 1..=SEEDS {
                let policy: Box<dyn Policy> = match name {
                    "bsp" => Box::new(Bsp::new(epoch)),
                    "asp" => Box::new(Asp::new(epoch)),
                    "ssp" => Box::new(Ssp::new(epoch, Ssp::DEFAULT_BOUND)),
                    _ => Box::new(A2s::new(epoch, A2s::DEFAULT_SLACK)),
                };
                let run = Run::new(&digits, policy, seed, rate as f32)?.until(units * UNIT)?;
                accuracy.push(run.0);
                staleness += run.1 / SEEDS as f64;
                iterations += run.2;
            }
            let mean = accuracy.iter().sum::<f64>() / SEEDS as f64;
            println!("{rate:<6} {name:<7} {mean:.4}    {staleness:.2}       {iterations}   {accuracy:.3?}");
        }
    }
    Ok(())
}

struct Run<'a> {
    digits: &'a Digits,
    policy: Box<dyn Policy>,
    learners: Vec<RemoteLearner>,
    parameters: Vec<f32>,
    rate: f32,
    updates: u64,
    /// What a computing worker will hand in, when, and at which update it got its parameters.
    computing: BTreeMap<(u64, Worker), (Vec<f32>, u64)>,
    arrived: BTreeMap<Worker, (Vec<f32>, u64)>,
    staleness: u64,
    used: u64,
}

impl<'a> Run<'a> {
    fn new(digits: &'a Digits, policy: Box<dyn Policy>, seed: u64, rate: f32) -> Result<Self, Error> {
        let training = Training::new(STEPS.len() as u16, 1, seed)?;
        let learners = (0..STEPS.len() as u16)
            .map(|rank| RemoteLearner::new(&training, Arc::clone(&digits.training), Share::Worker(rank)))
            .collect::<Result<_, _>>()?;
        let parameters = Model::new(seed).parameters().to_vec();
        let (computing, arrived) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self {
            digits,
            policy,
            learners,
            parameters,
            rate,
            updates: 0,
            computing,
            arrived,
            staleness: 0,
            used: 0,
        })
    }

    /// Accuracy, mean staleness, iterations.
    fn until(mut self, end: u64) -> Result<(f64, f64, u64), Error> {
        for worker in 0..STEPS.len() as Worker {
            let actions = self.policy.join(worker, 0);
            self.settle(actions, 0)?;
        }
        while let Some(((now, worker), gradient)) = self.computing.pop_first() {
            if now > end {
                break;
            }
            self.arrived.insert(worker, gradient);
            let actions = self.policy.arrive(worker);
            self.settle(actions, now)?;
        }
        let accuracy = Model::from_parameters(self.parameters)?.accuracy(&self.digits.held_out);
        Ok((accuracy, self.staleness as f64 / self.used.max(1) as f64, self.used))
    }

    fn settle(&mut self, actions: Vec<Action>, now: u64) -> Result<(), Error> {
        for action in actions {
            match action {
                Action::Apply(parts) => {
                    let total: u64 = parts.iter().map(|part| part.weight).sum();
                    let rate = self.rate * DECAY.powi(self.policy.progress().slowest_epoch() as i32);
                    for part in parts {
                        let (gradient, pulled) = self.arrived.remove(&part.worker).ok_or("applied twice")?;
                        self.staleness += self.updates - pulled;
                        self.used += 1;
                        let step = rate * (part.weight as f64 / total as f64) as f32;
                        for (parameter, value) in self.parameters.iter_mut().zip(&gradient) {
                            *parameter -= step * value;
                        }
                    }
                    self.updates += 1;
                }
                Action::Release(worker) => {
                    let model = Model::from_parameters(self.parameters.clone())?;
                    let iteration = self.policy.progress().iterations(worker) as u32;
                    let mut gradient = vec![0.0; PARAMETERS];
                    self.learners[usize::from(worker)].gradient(&model, iteration, &mut gradient)?;
                    let arrival = now + STEPS[usize::from(worker)];
                    self.computing.insert((arrival, worker), (gradient, self.updates));
                }
            }
        }
        Ok(())
    }
}
