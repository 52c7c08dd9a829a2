//! A program with all it remembers: tables, counters, registers and multicast groups.

use std::sync::Arc;

use crate::control::{ActionCall, CounterValue, EntryKey, MulticastGroup, TableEntry};
use crate::error::ControlError;
use crate::pipeline::Pipeline;

/// A switch without ports: what it does with a frame and what the control plane can do to it.
#[derive(Debug)]
pub struct Switch {
    pipeline: Arc<Pipeline>,
}

impl Switch {
    /// A switch that runs `pipeline`, its tables filled as the program says, the rest empty.
    pub fn new(pipeline: Arc<Pipeline>) -> Self {
        Self { pipeline }
    }

    /// The program it runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `AlreadyExists`, `Full`.
    pub fn insert(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let _ = entry;
        Err(ControlError::NoPipeline)
    }

    /// Changes the action of an entry; its counter goes on.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn modify(&mut self, entry: &TableEntry) -> Result<(), ControlError> {
        let _ = entry;
        Err(ControlError::NoPipeline)
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`, `NotFound`.
    pub fn delete(&mut self, key: &EntryKey) -> Result<(), ControlError> {
        let _ = key;
        Err(ControlError::NoPipeline)
    }

    /// One entry with its direct counter, which is there when the table has one.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `NotFound`.
    pub fn entry(&self, key: &EntryKey) -> Result<(TableEntry, Option<CounterValue>), ControlError> {
        let _ = key;
        Err(ControlError::NoPipeline)
    }

    /// All entries of a table with their direct counters, in no particular order.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn entries(&self, table_id: u32) -> Result<Vec<(TableEntry, Option<CounterValue>)>, ControlError> {
        let _ = table_id;
        Err(ControlError::NoPipeline)
    }

    /// Sets what a table does where nothing matches; `None` goes back to what the program says.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument`, `Constant`.
    pub fn set_default(&mut self, table_id: u32, action: Option<&ActionCall>) -> Result<(), ControlError> {
        let _ = (table_id, action);
        Err(ControlError::NoPipeline)
    }

    /// What a table does where nothing matches, and the direct counter of those packets. `None` for the
    /// action: nothing.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn default_action(
        &self,
        table_id: u32,
    ) -> Result<(Option<ActionCall>, Option<CounterValue>), ControlError> {
        let _ = table_id;
        Err(ControlError::NoPipeline)
    }

    /// Overwrites the direct counter of an entry.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `InvalidArgument` (also where the table has none), `NotFound`.
    pub fn set_direct_counter(&mut self, key: &EntryKey, value: CounterValue) -> Result<(), ControlError> {
        let _ = (key, value);
        Err(ControlError::NoPipeline)
    }

    /// All cells of a counter array, by index.
    ///
    /// # Errors
    /// [`ControlError::UnknownId`].
    pub fn counters(&self, counter_id: u32) -> Result<&[CounterValue], ControlError> {
        let _ = counter_id;
        Err(ControlError::NoPipeline)
    }

    /// Overwrites one cell of a counter array, or all cells.
    ///
    /// # Errors
    /// [`ControlError`]: `UnknownId`, `OutOfRange`.
    pub fn set_counter(
        &mut self,
        counter_id: u32,
        index: Option<i64>,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        let _ = (counter_id, index, value);
        Err(ControlError::NoPipeline)
    }

    /// Adds a multicast group.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument` (group 0, a port the program cannot name, a replica twice),
    /// `AlreadyExists`.
    pub fn insert_group(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        let _ = group;
        Err(ControlError::NoPipeline)
    }

    /// Replaces the replicas of a multicast group.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument`, `NotFound`.
    pub fn modify_group(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        let _ = group;
        Err(ControlError::NoPipeline)
    }

    /// Removes a multicast group.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_group(&mut self, id: u16) -> Result<(), ControlError> {
        let _ = id;
        Err(ControlError::NoPipeline)
    }

    /// All multicast groups, by id.
    pub fn groups(&self) -> Vec<MulticastGroup> {
        Vec::new()
    }
}
