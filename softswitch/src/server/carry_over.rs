//! The part of one program's state that another program can take over.

use tributary_p4runtime::P4Info;

use crate::control::{ActionCall, CounterValue, MulticastGroup, TableEntry};
use crate::error::ControlError;
use crate::switch::Switch;

/// Everything that controllers have written to a switch: entries with their direct counters, changed default actions
/// and multicast groups. Indexed counters and registers belong to the program, and start anew.
#[derive(Debug, Default)]
pub(super) struct Written {
    entries: Vec<(TableEntry, Option<CounterValue>)>,
    defaults: Vec<(u32, ActionCall)>,
    groups: Vec<MulticastGroup>,
}

impl Written {
    /// Reads it from a switch that runs the program of this P4Info. `fresh` runs the same program and has not been
    /// written to.
    pub(super) fn on(switch: &Switch, fresh: &Switch, p4info: &P4Info) -> Result<Self, ControlError> {
        let mut written = Self { groups: switch.groups(), ..Self::default() };
        for table in p4info.tables() {
            let id = table.name.id;
            // Where the program itself has entries, no others can be written.
            if fresh.entries(id)?.is_empty() {
                written.entries.extend(switch.entries(id)?);
            }
            let (action, _) = switch.default_action(id)?;
            if action != fresh.default_action(id)?.0 {
                written.defaults.extend(action.map(|action| (id, action)));
            }
        }
        Ok(written)
    }

    /// Writes it to a switch that has not been written to.
    pub(super) fn put_on(&self, switch: &mut Switch) -> Result<(), ControlError> {
        for (entry, count) in &self.entries {
            switch.insert(entry)?;
            // The new program may have no counter here: then the entry works without it.
            if let Some(value) = count.filter(|_| matches!(switch.entry(&entry.key), Ok((_, Some(_))))) {
                switch.set_direct_counter(&entry.key, value)?;
            }
        }
        for (table, action) in &self.defaults {
            switch.set_default(*table, Some(action))?;
        }
        self.groups.iter().try_for_each(|group| switch.insert_group(group))
    }
}
