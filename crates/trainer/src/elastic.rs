//! A worker in a training whose members can change.

use std::sync::Arc;

use crate::error::TrainerError;
use crate::images::Images;
use crate::model::{Model, PARAMETERS};
use crate::sampler::{Sampler, Shards, digits, number};
use crate::training::Training;

/// The number of values in a state before the parameters. It is a multiple of every slice width.
/// The values of a block share an exponent. If counts were in the same block as parameters, the parameters would lose
/// their last digits.
const HEADER: usize = 2048;
/// The number of values for the count of steps, which is at the front.
const STEP_LEN: usize = 4;

/// A worker in training.
/// Each step has three parts: [`gradient`](Self::gradient), the weighted sum over all members by any means, and
/// [`apply`](Self::apply). When the members or the shards in use change, call [`regroup`](Self::regroup). When others
/// join, all members must take the [`state`](Self::state) of one member.
#[derive(Debug, Clone)]
pub struct ElasticLearner {
    model: Model,
    training: Training,
    images: Arc<Images>,
    sampler: Sampler,
    rank: u16,
    step: u32,
}

impl ElasticLearner {
    /// Makes the worker with this rank before the first step, with all workers as members.
    /// All workers start from the same model.
    ///
    /// # Errors
    ///
    /// [`TrainerError::NoSuchRank`] for a rank without a shard, or if the number of shards is not the number of
    /// workers; [`TrainerError::BadState`] for more than 511 shards, for which a state has no room.
    pub fn new(
        training: &Training,
        images: Arc<Images>,
        shards: Shards,
        rank: u16,
    ) -> Result<Self, TrainerError> {
        let workers = training.workers();
        if rank >= workers || usize::from(workers) != shards.len() {
            return Err(TrainerError::NoSuchRank { rank, workers });
        }
        let sampler = Sampler::new(shards, training.batch_per_worker(), training.seed())?;
        if STEP_LEN + sampler.state_len() > HEADER {
            return Err(TrainerError::BadState);
        }
        let (model, training) = (Model::new(training.seed()), *training);
        Ok(Self { model, training, images, sampler, rank, step: 0 })
    }

    /// Writes the gradient of this step to `out`: the *mean* over this worker's samples.
    /// Returns the number of samples, which is the weight of this gradient in the sum.
    ///
    /// # Errors
    ///
    /// [`TrainerError::WrongLength`] if the length of `out` is not [`PARAMETERS`].
    pub fn gradient(&self, out: &mut [f32]) -> Result<u32, TrainerError> {
        let samples = self.sampler.samples(self.rank);
        self.model.gradient(&self.images.select(&samples), out)?;
        let count = samples.len() as u32;
        let scale = 1.0 / count.max(1) as f32;
        out.iter_mut().for_each(|value| *value *= scale);
        Ok(count)
    }

    /// Ends the step: moves the model along `summed`, the weighted sum of the members' gradients.
    /// `weight` is the sum of their weights.
    ///
    /// # Errors
    ///
    /// [`TrainerError`], as for [`Model::apply`]. The step is then not over.
    pub fn apply(&mut self, summed: &[f32], weight: u64) -> Result<(), TrainerError> {
        self.model.apply(summed, weight, self.training.learning_rate(self.step))?;
        self.step += 1;
        self.sampler.advance();
        Ok(())
    }

    /// Sets the members and the shards, like [`Sampler::regroup`].
    ///
    /// # Errors
    ///
    /// [`TrainerError::BadGroup`], as for [`Sampler::regroup`].
    pub fn regroup(&mut self, members: &[u16], shards: &[u16]) -> Result<(), TrainerError> {
        self.sampler.regroup(members, shards)
    }

    /// Returns the state that must be equal on all members. It does not contain the list of members.
    pub fn state(&self) -> Vec<f32> {
        let mut state = Vec::with_capacity(Self::STATE_LEN);
        state.extend(digits(self.step.into()));
        state.extend(self.sampler.state());
        state.resize(HEADER, 0.0);
        state.extend(self.model.parameters());
        state
    }

    /// The number of values in a state.
    pub const STATE_LEN: usize = HEADER + PARAMETERS;

    /// Replaces this worker's state with the state of another member.
    ///
    /// # Errors
    ///
    /// [`TrainerError::BadState`] if this is not a state of such a training. The worker is then unchanged.
    pub fn restore(&mut self, state: &[f32]) -> Result<(), TrainerError> {
        if state.len() != Self::STATE_LEN {
            return Err(TrainerError::BadState);
        }
        let (header, parameters) = state.split_at(HEADER);
        let (step, rest) = header.split_first_chunk::<STEP_LEN>().ok_or(TrainerError::BadState)?;
        let step = number(step).and_then(|step| u32::try_from(step).ok()).ok_or(TrainerError::BadState)?;
        let model = Model::from_parameters(parameters.to_vec())?;
        self.sampler.restore(&rest[..self.sampler.state_len()])?;
        (self.step, self.model) = (step, model);
        Ok(())
    }

    /// Returns the number of completed steps.
    pub fn step(&self) -> u32 {
        self.step
    }

    /// Returns the present model.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits::Digits;

    /// Makes all workers of a training in one process.
    fn workers(training: &Training, digits: &Digits, by_class: bool) -> Vec<ElasticLearner> {
        let workers = training.workers();
        let shards = match by_class {
            true => Shards::by_class(&digits.training.labels().collect::<Vec<_>>(), workers).unwrap(),
            false => Shards::alike(digits.training.len(), workers, 1).unwrap(),
        };
        let learner =
            |rank| ElasticLearner::new(training, Arc::clone(&digits.training), shards.clone(), rank).unwrap();
        (0..workers).map(learner).collect()
    }

    /// Runs one step of the members.
    fn step(learners: &mut [ElasticLearner], members: &[u16]) -> u64 {
        let mut summed = vec![0.0; PARAMETERS];
        let mut gradient = vec![0.0; PARAMETERS];
        let mut weight = 0;
        for member in members {
            let samples = learners[usize::from(*member)].gradient(&mut gradient).unwrap();
            summed.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value * samples as f32);
            weight += u64::from(samples);
        }
        for member in members {
            learners[usize::from(*member)].apply(&summed, weight).unwrap();
        }
        weight
    }

    /// Returns the accuracy after a training in which worker 3 is excluded from step 5 on.
    fn accuracy(members: &[u16], used: &[u16]) -> f64 {
        let (training, digits) = (Training::new(8, 60, 5).unwrap(), Digits::embedded().unwrap());
        let mut learners = workers(&training, &digits, true);
        for round in 0..training.rounds() {
            let all: Vec<u16> = (0..8).collect();
            let in_it = if round < 5 { &all } else { members };
            for learner in learners.iter_mut().filter(|_| round == 5) {
                learner.regroup(members, used).unwrap();
            }
            step(&mut learners, in_it);
        }
        learners[0].model().accuracy(&digits.held_out)
    }

    #[test]
    fn with_skewed_shards_shrinking_keeps_the_accuracy_and_detaching_does_not() {
        let (all, others) = ([0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 4, 5, 6, 7]);
        let undisturbed = accuracy(&all, &all);
        let (shrink, detach) = (accuracy(&others, &all), accuracy(&others, &others));
        assert!(undisturbed > 0.94, "{undisturbed}");
        assert!((shrink - undisturbed).abs() <= 0.01, "{shrink} and {undisturbed}");
        assert!(detach < undisturbed - 0.03, "{detach} and {undisturbed}");
    }

    #[test]
    fn the_total_weight_is_that_of_the_data_in_use() {
        let (training, digits) = (Training::new(8, 4, 5).unwrap(), Digits::embedded().unwrap());
        let mut learners = workers(&training, &digits, false);
        let (all, others) = ([0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(step(&mut learners, &all), 128);
        learners.iter_mut().for_each(|learner| learner.regroup(&others, &all).unwrap());
        assert_eq!(step(&mut learners, &others), 128);
        learners.iter_mut().for_each(|learner| learner.regroup(&others, &others).unwrap());
        assert_eq!(step(&mut learners, &others), 112);
    }

    #[test]
    fn one_that_comes_in_takes_over_all_there_is_to_know() {
        let (training, digits) = (Training::new(4, 10, 5).unwrap(), Digits::embedded().unwrap());
        let mut learners = workers(&training, &digits, false);
        let (all, others) = ([0, 1, 2, 3], [0, 1, 2]);
        step(&mut learners, &all);
        learners.iter_mut().for_each(|learner| learner.regroup(&others, &all).unwrap());
        step(&mut learners, &others);
        let state = learners[0].state();
        assert_eq!(state.len(), ElasticLearner::STATE_LEN);
        for learner in &mut learners {
            learner.restore(&state).unwrap();
            learner.regroup(&all, &all).unwrap();
        }
        step(&mut learners, &all);
        assert!(learners.iter().all(|learner| learner.model() == learners[0].model() && learner.step() == 3));
        let mut half_a_step = state.clone();
        half_a_step[0] = 0.5;
        for bad in [&state[1..], &half_a_step, &[]] {
            assert!(matches!(learners[0].restore(bad), Err(TrainerError::BadState)));
        }
    }
}
