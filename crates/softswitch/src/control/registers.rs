//! The control plane's access to registers.

use tributary_p4runtime::canonical;

use crate::error::ControlError;
use crate::registers::Registers;
use crate::switch::Switch;

impl Switch {
    /// Returns up to `count` cells of a register array from `first` on, as canonical byte strings.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn registers(
        &self,
        register_id: u32,
        first: u64,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, ControlError> {
        let (registers, array) = (&self.state.registers, self.register(register_id)?);
        Ok((first..).take(count).map_while(|index| value(registers, array, index)).collect())
    }

    /// Overwrites one cell of a register array, or all cells.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`, `InvalidArgument` (a value that is too wide).
    pub fn set_register(
        &mut self,
        register_id: u32,
        index: Option<i64>,
        value: &[u8],
    ) -> Result<(), ControlError> {
        let array = self.register(register_id)?;
        let bits = self.pipeline.info().registers().find(|one| one.name.id == register_id);
        let bits = bits.map_or(0, |register| register.bits);
        let what = format!("register {register_id:#010x}");
        let value = canonical::check(value, bits).map_err(|error| ControlError::InvalidArgument {
            place: what.clone(),
            problem: format!("a bad value: {error}"),
        })?;
        let limbs = crate::program::limbs(value);
        let registers = &mut self.state.registers;
        let size = registers.len(array);
        let range = match index {
            None => 0..size as u64,
            Some(index) => match u64::try_from(index).ok().filter(|at| *at < size as u64) {
                Some(at) => at..at + 1,
                None => return Err(ControlError::OutOfRange { what, index, size }),
            },
        };
        range.for_each(|at| registers.set(array, at, &limbs));
        Ok(())
    }

    fn register(&self, id: u32) -> Result<usize, ControlError> {
        let known = self.pipeline.directory.registers.get(&id);
        known.copied().ok_or(ControlError::UnknownId { what: "register", id })
    }
}

/// Returns a cell's value; `None` if the cell does not exist.
fn value(registers: &Registers, array: usize, index: u64) -> Option<Vec<u8>> {
    let bytes: Vec<u8> = match registers.word(array, index) {
        Some(word) => word.to_be_bytes().to_vec(),
        None => {
            let cell = registers.lines(array, index)?.as_flattened();
            cell.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect()
        }
    };
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros.min(bytes.len() - 1)..].to_vec())
}
