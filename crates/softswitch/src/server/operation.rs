//! Updates of the switch's state, carried out on the switch's thread.

use crate::control::Part;
use crate::error::ControlError;
use crate::switch::Switch;

type Change = Box<dyn FnOnce(&mut Switch) -> Result<(), ControlError> + Send>;

/// One update, ready to be carried out on the switch's thread.
pub(super) struct Operation {
    /// The part of the switch that the update changes.
    pub(super) part: Part,
    change: Change,
}

impl Operation {
    /// Creates an operation from a change, which may change only this part of the switch.
    pub(super) fn new(
        part: Part,
        change: impl FnOnce(&mut Switch) -> Result<(), ControlError> + Send + 'static,
    ) -> Self {
        Self { part, change: Box::new(change) }
    }

    /// Carries out the operation.
    pub(super) fn carry_out(self, switch: &mut Switch) -> Result<(), ControlError> {
        (self.change)(switch)
    }
}
