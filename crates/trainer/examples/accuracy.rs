//! Measures the accuracy and the speed of the network's training.
//!
//! It reports the accuracy on the held-out images for many seeds, on one machine, and as eight workers whose gradients
//! are summed in order.
//!
//! `cargo run --release -p tributary-trainer --example accuracy -- [ROUNDS] [SEEDS] [WORKERS]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use tributary_trainer::{Digits, Learner, PARAMETERS, Share, TrainerError, Training, train_on_one_machine};

fn main() -> anyhow::Result<()> {
    let argument =
        |at: usize, default: u32| std::env::args().nth(at).map_or(Ok(default), |text| text.parse());
    let (rounds, seeds, workers) =
        (argument(1, Training::DEFAULT_ROUNDS)?, argument(2, 20)?, u16::try_from(argument(3, 8)?)?);
    let digits = Digits::embedded()?;
    let mut spent = Duration::ZERO;
    let mut accuracies = Vec::new();
    println!("seed   one machine   {workers} workers");
    for seed in 0..seeds {
        let training = Training::new(workers, rounds, u64::from(seed))?;
        let start = Instant::now();
        let alone = train_on_one_machine(&training, &digits)?.accuracy(&digits.held_out);
        spent += start.elapsed();
        let together = train_together(&training, &digits)?;
        println!("{seed:4}   {:9.2} %   {:7.2} %", 100.0 * alone, 100.0 * together);
        accuracies.push(alone);
    }
    let worst = accuracies.iter().copied().fold(1.0, f64::min);
    let mean = accuracies.iter().sum::<f64>() / accuracies.len().max(1) as f64;
    let per_round = spent.as_secs_f64() * 1e3 / f64::from(rounds * seeds).max(1.0);
    println!(
        "{rounds} rounds: mean {:.2} %, worst {:.2} %, {per_round:.2} ms a round on one core",
        100.0 * mean,
        100.0 * worst
    );
    Ok(())
}

/// Trains with the batch split into shares, and returns the accuracy of the worker with rank 0.
fn train_together(training: &Training, digits: &Digits) -> Result<f64, TrainerError> {
    let learner = |rank| Learner::new(training, Arc::clone(&digits.training), Share::Worker(rank));
    let mut learners = (0..training.workers()).map(learner).collect::<Result<Vec<_>, _>>()?;
    let mut gradient = vec![0.0; PARAMETERS];
    for _ in 0..training.rounds() {
        let mut sum = vec![0.0; PARAMETERS];
        for learner in &learners {
            learner.gradient(&mut gradient)?;
            sum.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value);
        }
        for learner in &mut learners {
            learner.apply(&sum, training.global_batch() as u64)?;
        }
    }
    Ok(learners.first().map_or(0.0, |learner| learner.model().accuracy(&digits.held_out)))
}
