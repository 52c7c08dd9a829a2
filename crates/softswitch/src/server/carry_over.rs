//! The part of one program's state that another program can take over.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4info::Table;

use crate::control::{
    CloneSession, DefaultEntry, DigestConfig, DirectResources, EntryRef, FieldMatch, MulticastGroup,
    ProfileGroup, ProfileMember, TableEntry,
};
use crate::error::ControlError;
use crate::switch::Switch;

/// Everything that controllers have written to a switch, except arrays.
/// It includes entries with their counters and meters, action profiles, changed default entries, value sets, multicast
/// groups, clone sessions, and digest configurations. Arrays of counters, meters and registers belong to the program,
/// and start from zero.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Tables whose initial entries the controller may have changed or deleted.
    preset: Vec<u32>,
    entries: Vec<(TableEntry, DirectResources)>,
    members: Vec<ProfileMember>,
    profile_groups: Vec<ProfileGroup>,
    defaults: Vec<(u32, DefaultEntry)>,
    value_sets: Vec<(u32, Vec<Vec<FieldMatch>>)>,
    digests: Vec<(u32, DigestConfig)>,
    groups: Vec<MulticastGroup>,
    sessions: Vec<CloneSession>,
}

impl Written {
    /// Reads the written state of a switch that runs the program of this P4Info.
    /// `fresh` runs the same program and has not been written to.
    pub(super) fn on(switch: &Switch, fresh: &Switch, p4info: &P4Info) -> Result<Self, ControlError> {
        let mut written = Self { groups: switch.groups(), sessions: switch.sessions(), ..Self::default() };
        for profile in p4info.message().action_profiles.iter().filter(|one| !one.table_ids.is_empty()) {
            let id = profile.preamble.as_ref().map_or(0, |preamble| preamble.id);
            written.members.extend(switch.members(id)?);
            written.profile_groups.extend(switch.profile_groups(id)?);
        }
        for set in p4info.message().value_sets.iter().filter_map(|set| set.preamble.as_ref()) {
            let members = switch.value_set(set.id)?;
            written.value_sets.extend((!members.is_empty()).then_some((set.id, members)));
        }
        for digest in p4info.message().digests.iter().filter_map(|digest| digest.preamble.as_ref()) {
            written.digests.extend(switch.digest(digest.id)?.map(|config| (digest.id, config)));
        }
        let present = |table: &&Table| !switch.pipeline().directory.absent_tables.contains(&table.name.id);
        for table in p4info.tables().filter(present) {
            let id = table.name.id;
            // If the program's own entries are constant, controllers cannot write others.
            let initial = fresh.entries(id)?;
            if initial.iter().all(|(_, had)| !had.constant) {
                written.preset.extend((!initial.is_empty()).then_some(id));
                written.entries.extend(switch.entries(id)?);
            }
            let default = switch.default_entry(id)?;
            if default != fresh.default_entry(id)? {
                written.defaults.push((id, default));
            }
        }
        Ok(written)
    }

    /// Writes the state to a switch that has not been written to.
    pub(super) fn put_on(&self, switch: &mut Switch) -> Result<(), ControlError> {
        self.members.iter().try_for_each(|member| switch.insert_member(member))?;
        self.profile_groups.iter().try_for_each(|group| switch.insert_profile_group(group))?;
        for id in &self.preset {
            // The entries of the old program replace the initial entries of the new program.
            let initial = switch.entries(*id).unwrap_or_default();
            for (entry, _) in initial.iter().filter(|(_, had)| !had.constant) {
                switch.delete(&entry.key)?;
            }
        }
        for (entry, had) in &self.entries {
            switch.insert(entry)?;
            let has = switch.entry(&entry.key)?.1;
            put_resources(switch, &EntryRef::Entry(entry.key.clone()), had, &has)?;
        }
        for (table, default) in &self.defaults {
            if default.action != switch.default_entry(*table)?.action {
                switch.set_default(*table, default.action.as_ref())?;
            }
            switch.set_default_note(*table, &default.metadata)?;
            let has = switch.default_entry(*table)?.resources;
            put_resources(switch, &EntryRef::Default(*table), &default.resources, &has)?;
        }
        self.value_sets.iter().try_for_each(|(id, members)| switch.set_value_set(*id, members))?;
        self.digests.iter().try_for_each(|(id, config)| switch.insert_digest(*id, *config))?;
        self.groups.iter().try_for_each(|group| switch.insert_group(group))?;
        self.sessions.iter().try_for_each(|session| switch.insert_session(session))
    }
}

/// Sets an entry's counter and rates to the values that they had on the old switch.
fn put_resources(
    switch: &mut Switch,
    entry: &EntryRef,
    had: &DirectResources,
    has: &DirectResources,
) -> Result<(), ControlError> {
    // The new program may have no counter here. Then the entry works without one.
    if had.counter.is_some() && has.counter.is_some() {
        switch.set_direct_counter(entry, had.counter)?;
    }
    if had.meter.is_some() { switch.set_direct_meter(entry, had.meter) } else { Ok(()) }
}
