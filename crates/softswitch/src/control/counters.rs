//! The control plane's access to counters.

use super::CounterValue;
use crate::error::ControlError;
use crate::switch::Switch;

impl Switch {
    /// Returns all cells of a counter array, by index.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn counters(&self, counter_id: u32) -> Result<&[CounterValue], ControlError> {
        Ok(&self.state.counters[self.counter(counter_id)?])
    }

    /// Overwrites one cell of a counter array, or all cells. A value of `None` leaves the cells
    /// unchanged.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`.
    pub fn set_counter(
        &mut self,
        counter_id: u32,
        index: Option<i64>,
        value: Option<CounterValue>,
    ) -> Result<(), ControlError> {
        let array = self.counter(counter_id)?;
        let cells = &mut self.state.counters[array];
        let Some(index) = index else {
            if let Some(value) = value {
                cells.fill(value);
            }
            return Ok(());
        };
        let size = cells.len();
        match usize::try_from(index).ok().and_then(|index| cells.get_mut(index)) {
            Some(cell) => *cell = value.unwrap_or(*cell),
            None => {
                let what = self.pipeline.info().counter_by_id(counter_id).map(|counter| &counter.name.full);
                let what = format!("counter {}", what.map_or("", String::as_str));
                return Err(ControlError::OutOfRange { what, index, size });
            }
        }
        Ok(())
    }

    fn counter(&self, id: u32) -> Result<usize, ControlError> {
        let known = self.pipeline.directory.counters.get(&id);
        known.copied().ok_or(ControlError::UnknownId { what: "counter", id })
    }
}
