//! The accuracy of a model over time, as CSV.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tributary_files::Readers;
use tributary_trainer::{Digits, Model};

use super::way::Position;

/// Keeps the parameters of each step. They are evaluated at the end, because an earlier evaluation
/// would distort the measured times.
pub(super) struct Curve {
    file: PathBuf,
    start: Instant,
    places: Vec<(Duration, u64, Vec<f32>)>,
}

impl Curve {
    /// Starts the measurement of time.
    pub(super) fn start(file: &Path) -> Self {
        Self { file: file.to_owned(), start: Instant::now(), places: Vec::new() }
    }

    /// Adds the parameters of a step.
    pub(super) fn add(&mut self, position: &Position) {
        self.places.push((self.start.elapsed(), position.iteration, position.parameters.clone()));
    }

    /// Evaluates all steps and writes them as CSV.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(self, digits: &Digits) -> Result<()> {
        let mut text = "seconds,iteration,accuracy\n".to_owned();
        for (time, iteration, parameters) in self.places {
            let accuracy = Model::from_parameters(parameters)?.accuracy(&digits.held_out);
            // Writing to a string does not fail.
            let _ = writeln!(text, "{:.6},{iteration},{accuracy:.4}", time.as_secs_f64());
        }
        tributary_files::write(&self.file, Readers::Everyone, text)
            .with_context(|| format!("cannot write the curve to {}", self.file.display()))
    }
}
