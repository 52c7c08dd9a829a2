//! Measurements, trial trainings, and disturbances on purpose.

pub(crate) mod bench;
pub(crate) mod chaos;
pub(crate) mod ps;
