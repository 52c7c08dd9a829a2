//! The settings of a job: its policy, its optimiser and its limits.

use std::num::{NonZeroU16, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::optimizer::{OptimizerError, OptimizerKind};
use crate::policy::{A2s, Asp, Bsp, Dssp, Policy, Spread, Ssp, SyncSwitch};

/// A policy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// The policy [`Bsp`].
    Bsp,
    /// The policy [`Asp`].
    Asp,
    /// The policy [`Ssp`].
    Ssp,
    /// The policy [`Dssp`].
    Dssp,
    /// The policy [`SyncSwitch`].
    SyncSwitch,
    /// The policy [`A2s`].
    A2s,
    /// The policy [`A2s`], with the lead counted since the last ranking.
    A2sRecent,
}

/// One job's settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct JobSpec {
    /// The job's name: letters, digits, '-', '_' and '.'. It is part of the name of the checkpoint file.
    pub name: String,
    /// The number of the job's workers. Training starts when all are present.
    pub workers: NonZeroU16,
    /// The rule by which gradients are used and workers continue.
    pub policy: PolicyKind,
    /// Number of iterations that a worker may be ahead of the slowest worker under SSP, or without credit
    /// under DSSP.
    #[serde(default = "default_bound")]
    pub bound: u64,
    /// Number of iterations that a worker with credit may be ahead under DSSP: at least `bound`, and at
    /// most 1,000 more.
    #[serde(default = "default_most_bound")]
    pub most_bound: u64,
    /// Number of synchronous epochs of the slowest worker under Sync-Switch.
    #[serde(default = "default_switch_epochs")]
    pub switch_epochs: u64,
    /// Number of gradients that may arrive while the synchronous group waits under A2S.
    #[serde(default = "default_slack")]
    pub slack: u64,
    /// Iterations of one worker that make an epoch.
    pub epoch_iterations: NonZeroU64,
    /// The learning rate before any worker has finished an epoch; above 0.
    pub learning_rate: f32,
    /// The factor of the learning rate in each epoch of the slowest worker; above 0, at most 1.
    #[serde(default = "default_decay")]
    pub decay: f32,
    /// Rule by which a gradient changes the parameters.
    #[serde(default)]
    pub optimizer: OptimizerKind,
    /// The most parameters that workers may bring.
    #[serde(default = "default_max_parameters")]
    pub max_parameters: u64,
    /// Updates between two checkpoints.
    #[serde(default = "default_checkpoint_updates")]
    pub checkpoint_updates: NonZeroU64,
    /// Time in seconds after the first worker has joined, at which training starts without the missing
    /// workers.
    #[serde(default = "default_gather_seconds")]
    pub gather_seconds: u64,
}

/// The most parameters that fit into one gRPC message, with some reserve. The length of a message has
/// 32 bits.
const MOST_PARAMETERS: u64 = 500_000_000;

/// The most credit. DSSP evaluates each possible credit whenever it grants one, so the number must be
/// limited.
const MOST_CREDIT: u64 = 1_000;

/// The longest time to wait for workers: one year, which every clock can represent.
const MOST_GATHER_SECONDS: u64 = 365 * 24 * 3600;

fn default_bound() -> u64 {
    Ssp::DEFAULT_BOUND
}

fn default_most_bound() -> u64 {
    Dssp::DEFAULT_MOST
}

fn default_switch_epochs() -> u64 {
    SyncSwitch::DEFAULT_SWITCH_EPOCHS
}

fn default_slack() -> u64 {
    A2s::DEFAULT_SLACK
}

fn default_decay() -> f32 {
    JobSpec::DEFAULT_DECAY
}

fn default_max_parameters() -> u64 {
    64 << 20
}

fn default_checkpoint_updates() -> NonZeroU64 {
    const { NonZeroU64::new(100).unwrap() }
}

fn default_gather_seconds() -> u64 {
    30
}

/// An error in the settings.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SpecError {
    /// The name cannot be used in a file name.
    #[error("{0:?} is no name for a job: use 1 to 64 letters, digits, '-', '_' and '.', and no '.' in front")]
    Name(String),
    /// A number is out of range.
    #[error("job {job:?}: {key} is {value}: {rule}")]
    Number {
        /// The job's name.
        job: String,
        /// The setting's name.
        key: &'static str,
        /// The setting's value.
        value: f64,
        /// The setting's valid range.
        rule: &'static str,
    },
    /// The optimiser's constants are invalid.
    #[error("job {job:?}: {error}")]
    Optimizer {
        /// The job's name.
        job: String,
        /// The error in the constants.
        error: OptimizerError,
    },
}

impl JobSpec {
    /// The default factor of the learning rate in each epoch of the slowest worker.
    pub const DEFAULT_DECAY: f32 = 0.99;

    /// Creates a job with defaults for all other settings.
    pub fn new(
        name: impl Into<String>,
        workers: NonZeroU16,
        policy: PolicyKind,
        epoch_iterations: NonZeroU64,
        learning_rate: f32,
    ) -> Self {
        Self {
            name: name.into(),
            workers,
            policy,
            bound: default_bound(),
            most_bound: default_most_bound(),
            switch_epochs: default_switch_epochs(),
            slack: default_slack(),
            epoch_iterations,
            learning_rate,
            decay: default_decay(),
            optimizer: OptimizerKind::default(),
            max_parameters: default_max_parameters(),
            checkpoint_updates: default_checkpoint_updates(),
            gather_seconds: default_gather_seconds(),
        }
    }

    /// Checks everything that the types do not guarantee.
    ///
    /// # Errors
    /// [`SpecError`] names the setting.
    pub fn check(&self) -> Result<(), SpecError> {
        let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let fits = (1..=64).contains(&self.name.len()) && !self.name.starts_with('.');
        if !fits || !self.name.chars().all(letter) {
            return Err(SpecError::Name(self.name.clone()));
        }
        let number = |key, value: f64, fits: bool, rule| {
            if fits { Ok(()) } else { Err(SpecError::Number { job: self.name.clone(), key, value, rule }) }
        };
        let (rate, decay) = (self.learning_rate, self.decay);
        let positive = rate > 0.0 && rate.is_finite();
        number("learning-rate", rate.into(), positive, "a number above 0 is needed")?;
        number("decay", decay.into(), decay > 0.0 && decay <= 1.0, "above 0 and at most 1 is needed")?;
        let (least, most) = (self.bound, self.most_bound);
        let credit = most.checked_sub(least);
        let fits = self.policy != PolicyKind::Dssp || credit.is_some_and(|credit| credit <= MOST_CREDIT);
        number("most-bound", most as f64, fits, "as much as bound is needed, and at most 1,000 more")?;
        let most = self.max_parameters;
        let rule = "1 to 500 million are possible: use several servers, each with a range";
        number("max-parameters", most as f64, (1..=MOST_PARAMETERS).contains(&most), rule)?;
        let most = self.gather_seconds;
        let rule = "at most a year, 31,536,000, is possible";
        number("gather-seconds", most as f64, most <= MOST_GATHER_SECONDS, rule)?;
        let optimizer = self.optimizer.build(0, None);
        optimizer.map_err(|error| SpecError::Optimizer { job: self.name.clone(), error })?;
        Ok(())
    }

    /// Returns a checksum of the settings that determine the training.
    pub(super) fn checksum(&self) -> u32 {
        let training = Self {
            checkpoint_updates: default_checkpoint_updates(),
            gather_seconds: default_gather_seconds(),
            max_parameters: default_max_parameters(),
            ..self.clone()
        };
        // Serialization of numbers and strings does not fail.
        postcard::to_stdvec(&training).map_or(0, |bytes| crc32fast::hash(&bytes))
    }

    pub(super) fn policy(&self) -> Box<dyn Policy> {
        let epoch = self.epoch_iterations;
        match self.policy {
            PolicyKind::Bsp => Box::new(Bsp::new(epoch)),
            PolicyKind::Asp => Box::new(Asp::new(epoch)),
            PolicyKind::Ssp => Box::new(Ssp::new(epoch, self.bound)),
            PolicyKind::Dssp => Box::new(Dssp::new(epoch, self.bound, self.most_bound)),
            PolicyKind::SyncSwitch => Box::new(SyncSwitch::new(epoch, self.switch_epochs)),
            PolicyKind::A2s => Box::new(A2s::new(epoch, self.slack, Spread::Total)),
            PolicyKind::A2sRecent => Box::new(A2s::new(epoch, self.slack, Spread::Recent)),
        }
    }

    /// Returns the learning rate after the slowest worker has finished `epochs` epochs.
    pub(super) fn rate(&self, epochs: u64) -> f32 {
        let epochs = i32::try_from(epochs).unwrap_or(i32::MAX);
        (f64::from(self.learning_rate) * f64::from(self.decay).powi(epochs)) as f32
    }

    pub(super) fn gather_time(&self) -> Duration {
        Duration::from_secs(self.gather_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> JobSpec {
        let (workers, epoch) = (NonZeroU16::new(4).unwrap(), NonZeroU64::new(10).unwrap());
        JobSpec::new("digits", workers, PolicyKind::A2s, epoch, 0.1)
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert_eq!(spec().check(), Ok(()));
        for name in ["", ".", "../x", "a/b", "ü"] {
            assert!(JobSpec { name: name.into(), ..spec() }.check().is_err(), "{name:?}");
        }
        let said = |spec: JobSpec| spec.check().unwrap_err().to_string();
        assert!(said(JobSpec { learning_rate: f32::NAN, ..spec() }).contains("learning-rate"));
        assert!(said(JobSpec { decay: 1.5, ..spec() }).contains("decay"));
        assert!(said(JobSpec { policy: PolicyKind::Dssp, most_bound: 2, ..spec() }).contains("most-bound"));
        assert!(said(JobSpec { policy: PolicyKind::Dssp, most_bound: 1 << 60, ..spec() }).contains("1,000"));
        assert!(said(JobSpec { max_parameters: 0, ..spec() }).contains("max-parameters"));
        assert!(said(JobSpec { gather_seconds: u64::MAX, ..spec() }).contains("gather-seconds"));
        let optimizer = OptimizerKind::Momentum { momentum: 2.0 };
        assert!(said(JobSpec { optimizer, ..spec() }).contains("momentum"));
    }

    #[test]
    fn the_checksum_is_of_what_determines_the_training() {
        assert_eq!(spec().checksum(), JobSpec { gather_seconds: 7, max_parameters: 9, ..spec() }.checksum());
        let others = [
            JobSpec { policy: PolicyKind::Asp, ..spec() },
            JobSpec { decay: 0.5, ..spec() },
            JobSpec { optimizer: OptimizerKind::Momentum { momentum: 0.9 }, ..spec() },
        ];
        assert!(others.iter().all(|other| other.checksum() != spec().checksum()));
    }

    #[test]
    fn the_rate_decays_with_epochs() {
        assert!((spec().rate(2) - 0.1 * 0.99 * 0.99).abs() < 1e-9);
    }
}
