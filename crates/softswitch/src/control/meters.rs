//! The control plane's access to meters.

use super::{MeterColours, MeterConfig};
use crate::error::ControlError;
use crate::meters::Meter;
use crate::program::MeterKind;
use crate::switch::Switch;

impl Switch {
    /// Returns the rates of all cells of a meter array, by index, and the packets that each cell
    /// has marked.
    ///
    /// A cell without rates (`None`) marks all packets green.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn meters(&self, meter_id: u32) -> Result<Vec<(Option<MeterConfig>, MeterColours)>, ControlError> {
        let cells = self.state.meters[self.meter(meter_id)?].iter();
        Ok(cells.map(|cell| (cell.config(), colours(cell))).collect())
    }

    /// Sets the rates of one cell of a meter array, or of all cells, and fills their buckets.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`, `InvalidArgument` (rates that the meter cannot have).
    pub fn set_meter(
        &mut self,
        meter_id: u32,
        index: Option<i64>,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let kind = self.pipeline.program.meters[self.meter(meter_id)?].kind;
        check(kind, config, &name(meter_id))?;
        self.meter_cells(meter_id, index)?.iter_mut().for_each(|cell| cell.configure(kind, config));
        Ok(())
    }

    /// Clears the counts of marked packets in one cell of a meter array, or in all cells.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`.
    pub fn clear_meter_colours(&mut self, meter_id: u32, index: Option<i64>) -> Result<(), ControlError> {
        self.meter_cells(meter_id, index)?.iter_mut().for_each(Meter::forget_marked);
        Ok(())
    }

    fn meter_cells(&mut self, meter_id: u32, index: Option<i64>) -> Result<&mut [Meter], ControlError> {
        let array = self.meter(meter_id)?;
        let cells = &mut self.state.meters[array];
        let Some(index) = index else { return Ok(cells) };
        let size = cells.len();
        let cell = usize::try_from(index).ok().and_then(|index| cells.get_mut(index));
        let cell = cell.ok_or_else(|| ControlError::OutOfRange { what: name(meter_id), index, size })?;
        Ok(std::slice::from_mut(cell))
    }

    fn meter(&self, id: u32) -> Result<usize, ControlError> {
        let known = self.pipeline.directory.meters.get(&id);
        known.copied().ok_or(ControlError::UnknownId { what: "meter", id })
    }
}

fn name(id: u32) -> String {
    format!("meter {id:#010x}")
}

/// Returns the packets and bytes that a meter has marked.
pub(super) fn colours(meter: &Meter) -> MeterColours {
    let [green, yellow, red] = meter.marked();
    MeterColours { green, yellow, red }
}

/// Checks that a meter of this kind can have these rates.
pub(super) fn check(kind: MeterKind, config: Option<MeterConfig>, place: &str) -> Result<(), ControlError> {
    match config.map(|config| kind.check(&config)) {
        Some(Err(problem)) => Err(ControlError::InvalidArgument { place: place.to_owned(), problem }),
        _ => Ok(()),
    }
}
