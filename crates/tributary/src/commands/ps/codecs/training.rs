//! A training whose gradients pass through a codec, as with a parameter server that waits for every
//! worker.

use std::sync::Arc;

use anyhow::Result;
use tributary_codec::{Codec, EncodeError, Sketch, decode};
use tributary_trainer::{Digits, Learner, PARAMETERS, Share, Training};

use super::candidates::Candidate;

/// Returns the accuracy on held-out images after a training with a candidate's codes.
///
/// # Errors
/// A code cannot be decoded, which does not happen with a correct codec.
pub(super) fn accuracy(
    training: &Training,
    digits: &Digits,
    candidate: &Candidate,
    after_round: impl Fn(),
) -> Result<f64> {
    let mut learners = learners(training, digits)?;
    let mut codecs = codecs(candidate, training.workers(), training.seed());
    for _ in 0..training.rounds() {
        let gradients = gradients(&learners)?;
        match codes(&mut codecs, &gradients) {
            Ok(codes) => step(&mut learners, &sum(&codes)?, training)?,
            // The codec's errors have made the training diverge. The result is the present model.
            Err(EncodeError::NotFinite { .. }) => break,
            Err(error) => return Err(error.into()),
        }
        after_round();
    }
    Ok(learners.first().map_or(0.0, |learner| learner.model().accuracy(&digits.held_out)))
}

/// Returns one learner for each worker, before the first round.
pub(super) fn learners(training: &Training, digits: &Digits) -> Result<Vec<Learner>> {
    let learner = |rank| Ok(Learner::new(training, Arc::clone(&digits.training), Share::Worker(rank))?);
    (0..training.workers()).map(learner).collect()
}

/// Returns one encoder for each worker.
pub(super) fn codecs(candidate: &Candidate, workers: u16, seed: u64) -> Vec<Box<dyn Codec>> {
    (0..workers).map(|rank| (candidate.make)(seed << u16::BITS | u64::from(rank))).collect()
}

/// Returns every worker's gradient of this round.
pub(super) fn gradients(learners: &[Learner]) -> Result<Vec<Vec<f32>>> {
    let gradient = |learner: &Learner| {
        let mut gradient = vec![0.0; PARAMETERS];
        learner.gradient(&mut gradient)?;
        Ok(gradient)
    };
    learners.iter().map(gradient).collect()
}

/// Returns every worker's code, after the agreement of the codecs that need one.
///
/// # Errors
/// The codec's errors.
pub(super) fn codes(
    codecs: &mut [Box<dyn Codec>],
    gradients: &[Vec<f32>],
) -> Result<Vec<Vec<u8>>, EncodeError> {
    let mut sum: Option<Sketch> = None;
    for (codec, gradient) in codecs.iter_mut().zip(gradients) {
        match (codec.propose(gradient)?, &mut sum) {
            (Some(sketch), Some(sum)) => sum.add(&sketch),
            (sketch, sum) => *sum = sketch,
        }
    }
    if let Some(sum) = sum {
        codecs.iter_mut().try_for_each(|codec| codec.agree(&sum))?;
    }
    codecs.iter_mut().zip(gradients).map(|(codec, gradient)| codec.encode(gradient)).collect()
}

/// Returns the sum of the gradients in the codes, as a server computes it.
pub(super) fn sum(codes: &[Vec<u8>]) -> Result<Vec<f32>> {
    let mut sum = vec![0.0; PARAMETERS];
    for code in codes {
        sum.iter_mut().zip(decode(code, PARAMETERS)?).for_each(|(sum, value)| *sum += value);
    }
    Ok(sum)
}

/// Applies the sum to every worker's model.
pub(super) fn step(learners: &mut [Learner], sum: &[f32], training: &Training) -> Result<()> {
    let samples = training.global_batch() as u64;
    Ok(learners.iter_mut().try_for_each(|learner| learner.apply(sum, samples))?)
}
