//! Shows the progress of a study.

use indicatif::{ProgressBar, ProgressStyle};

/// A line that counts trainings.
///
/// It has no total, because the number of trainings is not known in advance.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(study: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{prefix}: {pos} trainings in {elapsed} ({msg})");
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.set_prefix(study.to_owned());
        Self(bar)
    }

    /// Counts a finished training of this contender.
    pub(crate) fn one(&self, contender: &str) {
        self.0.set_message(contender.to_owned());
        self.0.inc(1);
    }

    /// Ends the study's line, and prints a summary, even without a terminal.
    pub(crate) fn done(&self) {
        let (study, trainings) = (self.0.prefix(), self.0.position());
        let seconds = self.0.elapsed().as_secs();
        self.0.finish_and_clear();
        eprintln!("{study}: {trainings} trainings in {seconds} s");
    }
}
