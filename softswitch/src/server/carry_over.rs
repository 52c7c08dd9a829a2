//! The part of one program's state that another program can take over.

use tributary_p4runtime::P4Info;

use crate::control::{
    ActionCall, CloneSession, DirectResources, MulticastGroup, ProfileGroup, ProfileMember, TableEntry,
};
use crate::error::ControlError;
use crate::switch::Switch;

/// Everything that controllers have written to a switch: entries with their counters and meters, action profiles, changed
/// default actions, multicast groups and clone sessions. What is indexed belongs to the program, and starts anew.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Tables whose initial entries the controller may have changed or deleted.
    preset: Vec<u32>,
    entries: Vec<(TableEntry, DirectResources)>,
    members: Vec<ProfileMember>,
    profile_groups: Vec<ProfileGroup>,
    defaults: Vec<(u32, ActionCall)>,
    groups: Vec<MulticastGroup>,
    sessions: Vec<CloneSession>,
}

impl Written {
    /// Reads it from a switch that runs the program of this P4Info. `fresh` runs the same program and has not been
    /// written to.
    pub(super) fn on(switch: &Switch, fresh: &Switch, p4info: &P4Info) -> Result<Self, ControlError> {
        let mut written = Self { groups: switch.groups(), sessions: switch.sessions(), ..Self::default() };
        for profile in p4info.message().action_profiles.iter().filter(|one| !one.table_ids.is_empty()) {
            let id = profile.preamble.as_ref().map_or(0, |preamble| preamble.id);
            written.members.extend(switch.members(id)?);
            written.profile_groups.extend(switch.profile_groups(id)?);
        }
        for table in p4info.tables() {
            let id = table.name.id;
            // Where the program's own entries are constant, no others can be written.
            let initial = fresh.entries(id)?;
            if initial.iter().all(|(_, had)| !had.constant) {
                written.preset.extend((!initial.is_empty()).then_some(id));
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
        self.members.iter().try_for_each(|member| switch.insert_member(member))?;
        self.profile_groups.iter().try_for_each(|group| switch.insert_profile_group(group))?;
        for id in &self.preset {
            // The new program's initial entries make way.
            let initial = switch.entries(*id).unwrap_or_default();
            for (entry, _) in initial.iter().filter(|(_, had)| !had.constant) {
                switch.delete(&entry.key)?;
            }
        }
        for (entry, had) in &self.entries {
            switch.insert(entry)?;
            // The new program may have no counter here: then the entry works without it.
            if let (Some(value), Some(_)) = (had.counter, switch.entry(&entry.key)?.1.counter) {
                switch.set_direct_counter(&entry.key, value)?;
            }
            if had.meter.is_some() {
                switch.set_direct_meter(&entry.key, had.meter)?;
            }
        }
        for (table, action) in &self.defaults {
            switch.set_default(*table, Some(action))?;
        }
        self.groups.iter().try_for_each(|group| switch.insert_group(group))?;
        self.sessions.iter().try_for_each(|session| switch.insert_session(session))
    }
}
