//! Updates of the switch's state, carried out on the switch's thread.

use std::time::Duration;

use crate::control::{
    ActionCall, CloneSession, CounterValue, DigestConfig, EntryKey, EntryRef, FieldMatch, MeterConfig,
    MulticastGroup, Part, ProfileGroup, ProfileMember, TableEntry,
};
use crate::error::ControlError;
use crate::switch::Switch;

/// One update, ready to be carried out on the switch's thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Insert(TableEntry, ResourceUpdate),
    Modify(TableEntry, ResourceUpdate),
    /// Changes an entry except its action.
    ModifyRest {
        key: EntryKey,
        metadata: Vec<u8>,
        idle_timeout: Duration,
        resources: ResourceUpdate,
    },
    /// Changes the resources of a constant entry, but not its action.
    ModifyResources(EntryKey, ResourceUpdate),
    Delete(EntryKey),
    SetDefault {
        table_id: u32,
        action: Option<ActionCall>,
        metadata: Vec<u8>,
        resources: ResourceUpdate,
    },
    /// Sets a counter. A value of `None` only checks that the counter exists.
    SetCounter {
        counter_id: u32,
        index: Option<i64>,
        value: Option<CounterValue>,
    },
    /// Sets a direct counter. A value of `None` only checks that the counter exists.
    SetDirectCounter(EntryRef, Option<CounterValue>),
    SetMeter {
        meter_id: u32,
        index: Option<i64>,
        config: Option<MeterConfig>,
        /// True if the meter's counts of marked packets are set to zero.
        clear: bool,
    },
    SetDirectMeter {
        entry: EntryRef,
        config: Option<MeterConfig>,
        /// True if the meter's counts of marked packets are set to zero.
        clear: bool,
    },
    SetRegister {
        register_id: u32,
        index: Option<i64>,
        value: Vec<u8>,
    },
    SetValueSet {
        value_set_id: u32,
        members: Vec<Vec<FieldMatch>>,
    },
    InsertDigest {
        digest_id: u32,
        config: DigestConfig,
    },
    ChangeDigest {
        digest_id: u32,
        config: Option<DigestConfig>,
    },
    InsertMember(ProfileMember),
    ModifyMember(ProfileMember),
    DeleteMember {
        profile_id: u32,
        member_id: u32,
    },
    InsertProfileGroup(ProfileGroup),
    ModifyProfileGroup(ProfileGroup),
    DeleteProfileGroup {
        profile_id: u32,
        group_id: u32,
    },
    /// Does nothing.
    Nothing,
    InsertGroup(MulticastGroup),
    ModifyGroup(MulticastGroup),
    DeleteGroup(u16),
    InsertSession(CloneSession),
    ModifySession(CloneSession),
    DeleteSession(u16),
}

/// The parts of an update of an entry besides its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ResourceUpdate {
    pub(super) counter: Option<CounterValue>,
    pub(super) meter: Option<MeterConfig>,
    /// True if the table has meters. An update without rates then removes the rates.
    pub(super) metered: bool,
    /// True if the meter's counts of marked packets are set to zero.
    pub(super) clear: bool,
}

impl Operation {
    /// Carries out the operation.
    pub(super) fn carry_out(self, switch: &mut Switch) -> Result<(), ControlError> {
        match self {
            Self::Insert(entry, resources) => {
                resources.check(switch, entry.key.table_id)?;
                switch.insert(&entry)?;
                resources.put(switch, &EntryRef::Entry(entry.key))
            }
            Self::Modify(entry, resources) => {
                resources.check(switch, entry.key.table_id)?;
                switch.modify(&entry)?;
                resources.put(switch, &EntryRef::Entry(entry.key))
            }
            Self::ModifyRest { key, metadata, idle_timeout, resources } => {
                resources.check(switch, key.table_id)?;
                switch.modify_note(&key, &metadata, idle_timeout)?;
                resources.put(switch, &EntryRef::Entry(key))
            }
            Self::ModifyResources(key, resources) => {
                resources.check(switch, key.table_id)?;
                switch.entry(&key)?;
                resources.put(switch, &EntryRef::Entry(key))
            }
            Self::Delete(key) => switch.delete(&key),
            Self::SetDefault { table_id, action, metadata, resources } => {
                resources.check(switch, table_id)?;
                switch.set_default(table_id, action.as_ref())?;
                if action.is_none() {
                    // The program's own default entry has neither controller data nor rates.
                    return Ok(());
                }
                switch.set_default_note(table_id, &metadata)?;
                resources.put(switch, &EntryRef::Default(table_id))
            }
            Self::SetCounter { counter_id, index, value } => switch.set_counter(counter_id, index, value),
            Self::SetDirectCounter(entry, value) => switch.set_direct_counter(&entry, value),
            Self::SetMeter { meter_id, index, config, clear } => {
                switch.set_meter(meter_id, index, config)?;
                if clear { switch.clear_meter_colours(meter_id, index) } else { Ok(()) }
            }
            Self::SetDirectMeter { entry, config, clear } => {
                switch.set_direct_meter(&entry, config)?;
                if clear { switch.clear_direct_colours(&entry) } else { Ok(()) }
            }
            Self::SetRegister { register_id, index, value } => {
                switch.set_register(register_id, index, &value)
            }
            Self::SetValueSet { value_set_id, members } => switch.set_value_set(value_set_id, &members),
            Self::InsertDigest { digest_id, config } => switch.insert_digest(digest_id, config),
            Self::ChangeDigest { digest_id, config } => switch.change_digest(digest_id, config),
            Self::InsertMember(member) => switch.insert_member(&member),
            Self::ModifyMember(member) => switch.modify_member(&member),
            Self::DeleteMember { profile_id, member_id } => switch.delete_member(profile_id, member_id),
            Self::InsertProfileGroup(group) => switch.insert_profile_group(&group),
            Self::ModifyProfileGroup(group) => switch.modify_profile_group(&group),
            Self::DeleteProfileGroup { profile_id, group_id } => {
                switch.delete_profile_group(profile_id, group_id)
            }
            Self::Nothing => Ok(()),
            Self::InsertGroup(group) => switch.insert_group(&group),
            Self::ModifyGroup(group) => switch.modify_group(&group),
            Self::DeleteGroup(id) => switch.delete_group(id),
            Self::InsertSession(session) => switch.insert_session(&session),
            Self::ModifySession(session) => switch.modify_session(&session),
            Self::DeleteSession(id) => switch.delete_session(id),
        }
    }

    /// Returns the part of the switch that the operation changes; `None` if it changes nothing.
    pub(super) fn part(&self) -> Option<Part> {
        Some(match self {
            Self::Insert(entry, _) | Self::Modify(entry, _) => Part::Table(entry.key.table_id),
            Self::ModifyRest { key, .. } | Self::ModifyResources(key, _) | Self::Delete(key) => {
                Part::Table(key.table_id)
            }
            Self::SetDefault { table_id, .. } => Part::Table(*table_id),
            Self::SetDirectCounter(entry, _) | Self::SetDirectMeter { entry, .. } => {
                Part::Table(entry.table_id())
            }
            Self::SetCounter { counter_id, .. } => Part::Counter(*counter_id),
            Self::SetMeter { meter_id, .. } => Part::Meter(*meter_id),
            Self::SetRegister { register_id, .. } => Part::Register(*register_id),
            Self::SetValueSet { value_set_id, .. } => Part::ValueSet(*value_set_id),
            Self::InsertDigest { .. } | Self::ChangeDigest { .. } => Part::Digests,
            Self::InsertMember(member) | Self::ModifyMember(member) => Part::Profile(member.profile_id),
            Self::InsertProfileGroup(group) | Self::ModifyProfileGroup(group) => {
                Part::Profile(group.profile_id)
            }
            Self::DeleteMember { profile_id, .. } | Self::DeleteProfileGroup { profile_id, .. } => {
                Part::Profile(*profile_id)
            }
            Self::InsertGroup(_)
            | Self::ModifyGroup(_)
            | Self::DeleteGroup(_)
            | Self::InsertSession(_)
            | Self::ModifySession(_)
            | Self::DeleteSession(_) => Part::Replication,
            Self::Nothing => return None,
        })
    }
}

impl ResourceUpdate {
    /// Checks the resources before anything is changed.
    fn check(&self, switch: &Switch, table_id: u32) -> Result<(), ControlError> {
        if self.metered { switch.check_direct_meter(table_id, self.meter) } else { Ok(()) }
    }

    fn put(self, switch: &mut Switch, entry: &EntryRef) -> Result<(), ControlError> {
        if self.counter.is_some() {
            switch.set_direct_counter(entry, self.counter)?;
        }
        if self.clear {
            switch.clear_direct_colours(entry)?;
        }
        if self.metered { switch.set_direct_meter(entry, self.meter) } else { Ok(()) }
    }
}
