//! Studies: a comparison of methods while one property of a cluster changes.
//!
//! A [`Study`] has points on its axis ([`Study::points`]). The caller measures each point by a separate call
//! ([`Settings::measure`]), so that it can show progress.

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
    /// One job alone, with a growing number of workers.
    ///
    /// It runs on the smallest fat trees that hold the workers; all links have the same rate. The figure is
    /// the time of a synchronisation.
    Scaling,
    /// A growing number of jobs on random hosts of one fat tree.
    ///
    /// The figure is the mean time of an iteration.
    Jobs,
    /// The largest number of jobs of [`Study::Jobs`], on switches with a growing number of slots.
    ///
    /// The figure is the mean time of an iteration, for the methods that need slots.
    Slots,
    /// One job under rising background traffic. The figure is the mean time of an iteration.
    Congestion,
    /// One job while a switch is down for some seconds.
    ///
    /// In each tier it is the switch that carries most of the method's bytes. The figure is the delay of the
    /// job's end.
    Failures,
}

impl Study {
    /// All studies, in the order in which they are reported.
    pub const ALL: [Self; 5] = [Self::Scaling, Self::Jobs, Self::Slots, Self::Congestion, Self::Failures];

    /// Returns the number of points on the study's axis.
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
    /// [`FlowError`]. A refusal by the planner is a result and not an error.
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
