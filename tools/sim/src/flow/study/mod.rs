//! Studies: a comparison of methods while one property of a cluster changes.
//!
//! A [`Study`] has points on its axis ([`Study::points`]); each is measured by a call of its own
//! ([`Settings::measure`]), so that the caller can show progress.

mod congestion;
mod failures;
mod jobs;
mod scaling;
mod settings;
mod slots;

use serde::Serialize;

use super::error::FlowError;
pub use settings::{Measured, Point, Settings};

/// The available studies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Study {
    /// One job alone, with more and more workers, on the smallest fat trees that hold them; all links have
    /// the same rate. The figure is the time of a synchronisation.
    Scaling,
    /// More and more jobs on random hosts of one fat tree. The figure is the mean time of an iteration.
    Jobs,
    /// The largest number of jobs of [`Study::Jobs`], while switches have slots for more and more of them.
    /// The figure is the mean time of an iteration, for the methods that take slots.
    Slots,
    /// One job beside more and more background traffic. The figure is the mean time of an iteration.
    Congestion,
    /// One job while a switch dies for some seconds: in each tier the one through which most of the
    /// method's bytes go. The figure is the delay of the job's end.
    Failures,
}

impl Study {
    /// All studies, in the order in which they are reported.
    pub const ALL: [Self; 5] = [Self::Scaling, Self::Jobs, Self::Slots, Self::Congestion, Self::Failures];

    /// The number of points on its axis.
    pub fn points(self) -> usize {
        match self {
            Self::Scaling => scaling::WORKERS.len(),
            Self::Jobs => jobs::JOBS.len(),
            Self::Slots => slots::WINDOWS.len(),
            Self::Congestion => congestion::PER_CENT.len(),
            Self::Failures => failures::TIERS.len(),
        }
    }
}

impl Settings {
    /// Measures all methods at one point of a study, on all cores.
    ///
    /// # Errors
    /// [`FlowError`], except that the planner refuses a job: that is a result.
    pub fn measure(&self, study: Study, place: usize) -> Result<Point, FlowError> {
        match study {
            Study::Scaling => scaling::measure(self, place),
            Study::Jobs => jobs::measure(self, place),
            Study::Slots => slots::measure(self, place),
            Study::Congestion => congestion::measure(self, place),
            Study::Failures => failures::measure(self, place),
        }
    }
}
