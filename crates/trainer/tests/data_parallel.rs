//! Tests that training in shares is the same SGD as training alone.

use std::sync::Arc;

use tributary_trainer::{Digits, Learner, PARAMETERS, Share, TrainerError, Training, train_on_one_machine};

fn learner(training: &Training, digits: &Digits, share: Share) -> Result<Learner, TrainerError> {
    Learner::new(training, Arc::clone(&digits.training), share)
}

fn gradient(learner: &Learner) -> Result<(Vec<f32>, f64), TrainerError> {
    let mut gradient = vec![0.0; PARAMETERS];
    let loss = learner.gradient(&mut gradient)?;
    Ok((gradient, loss))
}

/// Returns the sums of all workers' gradients and losses in one round.
fn summed(learners: &[Learner]) -> Result<(Vec<f32>, f64), TrainerError> {
    let mut sum = (vec![0.0; PARAMETERS], 0.0);
    for learner in learners {
        let (values, loss) = gradient(learner)?;
        sum.0.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        sum.1 += loss;
    }
    Ok(sum)
}

fn workers(training: &Training, digits: &Digits) -> Result<Vec<Learner>, TrainerError> {
    (0..training.workers()).map(|rank| learner(training, digits, Share::Worker(rank))).collect()
}

#[test]
fn the_shares_gradients_add_up_to_the_whole_batchs() -> Result<(), TrainerError> {
    let digits = Digits::embedded()?;
    for count in [1, 2, 5, 8] {
        let training = Training::new(count, 10, 4)?;
        let (whole, whole_loss) = gradient(&learner(&training, &digits, Share::Whole)?)?;
        let (sum, sum_loss) = summed(&workers(&training, &digits)?)?;
        let largest = whole.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        for (sum, whole) in sum.iter().zip(&whole) {
            assert!((sum - whole).abs() <= 1e-5 * largest, "{count} workers: {sum} against {whole}");
        }
        assert!((sum_loss - whole_loss).abs() < 1e-4 * whole_loss);
    }
    Ok(())
}

#[test]
fn workers_learn_what_one_machine_learns() -> Result<(), TrainerError> {
    let digits = Digits::embedded()?;
    let training = Training::new(8, 12, 7)?;
    let mut learners = workers(&training, &digits)?;
    for _ in 0..training.rounds() {
        let (sum, _) = summed(&learners)?;
        for learner in &mut learners {
            learner.apply(&sum, training.global_batch() as u64)?;
        }
    }
    let together = learners[0].model();
    assert!(learners.iter().all(|learner| learner.model() == together));
    let alone = train_on_one_machine(&training, &digits)?;
    let difference = together.accuracy(&digits.held_out) - alone.accuracy(&digits.held_out);
    assert!(difference.abs() < 0.01, "accuracies differ by {difference}");
    Ok(())
}

#[test]
fn a_short_training_learns_and_a_repeated_one_gives_the_same_bits() -> Result<(), TrainerError> {
    let digits = Digits::embedded()?;
    let train = |rounds, seed| train_on_one_machine(&Training::new(1, rounds, seed)?, &digits);
    let (untrained, trained) = (train(0, 2)?, train(25, 2)?);
    assert!(untrained.accuracy(&digits.held_out) < 0.3);
    assert!(trained.accuracy(&digits.held_out) > 0.85);
    assert_eq!(trained, train(25, 2)?);
    assert_ne!(trained, train(25, 3)?);
    Ok(())
}

#[test]
fn a_refused_step_leaves_the_round_open() -> Result<(), TrainerError> {
    let digits = Digits::embedded()?;
    let training = Training::new(2, 10, 0)?;
    let mut learner = learner(&training, &digits, Share::Worker(1))?;
    let before = gradient(&learner)?;
    assert!(matches!(learner.apply(&[0.0], 128), Err(TrainerError::WrongLength { .. })));
    assert_eq!(gradient(&learner)?, before);
    learner.apply(&vec![0.0; PARAMETERS], 128)?;
    assert_ne!(gradient(&learner)?, before, "the next round takes other images");
    Ok(())
}
