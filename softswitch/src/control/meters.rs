//! Meters, as the control plane sees them.

use super::MeterConfig;
use crate::error::ControlError;
use crate::meters::Meter;
use crate::switch::Switch;

impl Switch {
    /// The rates of all cells of a meter array, by index; `None`: all packets are green.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn meters(&self, meter_id: u32) -> Result<Vec<Option<MeterConfig>>, ControlError> {
        Ok(self.state.meters[self.meter(meter_id)?].iter().map(Meter::config).collect())
    }

    /// Sets the rates of one cell of a meter array, or of all cells, and fills their buckets.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`, `InvalidArgument` (a peak rate below the committed one).
    pub fn set_meter(
        &mut self,
        meter_id: u32,
        index: Option<i64>,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let array = self.meter(meter_id)?;
        let what = format!("meter {meter_id:#010x}");
        check(config, &what)?;
        let cells = &mut self.state.meters[array];
        let Some(index) = index else {
            cells.iter_mut().for_each(|cell| cell.configure(config));
            return Ok(());
        };
        let size = cells.len();
        let cell = usize::try_from(index).ok().and_then(|index| cells.get_mut(index));
        cell.ok_or(ControlError::OutOfRange { what, index, size })?.configure(config);
        Ok(())
    }

    fn meter(&self, id: u32) -> Result<usize, ControlError> {
        let known = self.pipeline.directory.meters.get(&id);
        known.copied().ok_or(ControlError::UnknownId { what: "meter", id })
    }
}

pub(crate) fn check(config: Option<MeterConfig>, place: &str) -> Result<(), ControlError> {
    match config {
        Some(config) if config.peak_rate < config.committed_rate => Err(ControlError::InvalidArgument {
            place: place.to_owned(),
            problem: format!(
                "the peak rate {} is below the committed rate {}",
                config.peak_rate, config.committed_rate
            ),
        }),
        _ => Ok(()),
    }
}
