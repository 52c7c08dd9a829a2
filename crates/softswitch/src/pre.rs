//! The packet replication engine: the copies that a multicast group or a clone session makes.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::control::{CloneSession, MulticastGroup, Replica};
use crate::error::ControlError;
use crate::program::DROP_PORT;

/// The highest id of a clone session. Programs use 15 bits for it, as on BMv2.
pub(crate) const LAST_SESSION: u16 = 0x7fff;

/// The multicast groups and clone sessions of a switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replication {
    groups: FxHashMap<u16, GroupCopies>,
    sessions: FxHashMap<u16, CloneSession>,
    /// The ports that are down.
    down: BTreeSet<u16>,
}

/// A multicast group, and the copies that it makes with the present states of the ports.
#[derive(Debug, Clone)]
struct GroupCopies {
    written: MulticastGroup,
    active: Vec<Replica>,
}

impl GroupCopies {
    fn new(written: MulticastGroup, down: &BTreeSet<u16>) -> Self {
        let mut group = Self { written, active: Vec::new() };
        group.refresh(down);
        group
    }

    /// Chooses again between replicas and their backups.
    fn refresh(&mut self, down: &BTreeSet<u16>) {
        let MulticastGroup { replicas, backups, .. } = &self.written;
        let none = Vec::new();
        let backups = backups.iter().chain(std::iter::repeat(&none));
        let active = replicas.iter().zip(backups).filter_map(|(replica, backups)| {
            if backups.is_empty() {
                // A replica without backups is always used, even if its port is down.
                return Some(replica);
            }
            std::iter::once(replica).chain(backups).find(|one| !down.contains(&one.port))
        });
        self.active = active.copied().collect();
    }
}

impl Replication {
    /// Returns the copies to make for a group; an empty slice for an unknown group.
    #[inline]
    pub(crate) fn replicas(&self, group: u64) -> &[Replica] {
        let group = u16::try_from(group).ok().and_then(|group| self.groups.get(&group));
        group.map(|group| group.active.as_slice()).unwrap_or_default()
    }

    /// Adds a group.
    pub(crate) fn insert(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        check(group)?;
        if self.groups.contains_key(&group.id) {
            return Err(ControlError::AlreadyExists(name(group.id)));
        }
        self.groups.insert(group.id, GroupCopies::new(group.clone(), &self.down));
        Ok(())
    }

    /// Replaces a group's replicas.
    pub(crate) fn modify(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        check(group)?;
        let known = self.groups.get_mut(&group.id).ok_or_else(|| ControlError::NotFound(name(group.id)))?;
        *known = GroupCopies::new(group.clone(), &self.down);
        Ok(())
    }

    /// Removes a group.
    pub(crate) fn delete(&mut self, id: u16) -> Result<(), ControlError> {
        let removed = self.groups.remove(&id);
        removed.map(|_| ()).ok_or_else(|| ControlError::NotFound(name(id)))
    }

    /// Returns all groups, by id.
    pub(crate) fn groups(&self) -> Vec<MulticastGroup> {
        let mut groups: Vec<_> = self.groups.values().map(|group| group.written.clone()).collect();
        groups.sort_by_key(|group| group.id);
        groups
    }

    /// Sets the state of a port. While a port is down, backups replace the replicas with this port.
    pub(crate) fn set_port(&mut self, port: u16, up: bool) {
        let news = if up { self.down.remove(&port) } else { self.down.insert(port) };
        if news {
            let with_backups = self.groups.values_mut().filter(|group| !group.written.backups.is_empty());
            with_backups.for_each(|group| group.refresh(&self.down));
        }
    }

    /// Returns a clone session.
    pub(crate) fn session(&self, id: u16) -> Option<&CloneSession> {
        self.sessions.get(&id)
    }

    /// Adds a clone session.
    pub(crate) fn insert_session(&mut self, session: &CloneSession) -> Result<(), ControlError> {
        check_session(session)?;
        if self.sessions.contains_key(&session.id) {
            return Err(ControlError::AlreadyExists(session_name(session.id)));
        }
        self.sessions.insert(session.id, session.clone());
        Ok(())
    }

    /// Replaces a clone session.
    pub(crate) fn modify_session(&mut self, session: &CloneSession) -> Result<(), ControlError> {
        check_session(session)?;
        let known = self.sessions.get_mut(&session.id);
        known.ok_or_else(|| ControlError::NotFound(session_name(session.id)))?.clone_from(session);
        Ok(())
    }

    /// Removes a clone session.
    pub(crate) fn delete_session(&mut self, id: u16) -> Result<(), ControlError> {
        let removed = self.sessions.remove(&id);
        removed.map(|_| ()).ok_or_else(|| ControlError::NotFound(session_name(id)))
    }

    /// Returns all clone sessions, by id.
    pub(crate) fn sessions(&self) -> Vec<CloneSession> {
        let mut sessions: Vec<_> = self.sessions.values().cloned().collect();
        sessions.sort_by_key(|session| session.id);
        sessions
    }
}

fn name(id: u16) -> String {
    format!("multicast group {id}")
}

fn session_name(id: u16) -> String {
    format!("clone session {id}")
}

fn check(group: &MulticastGroup) -> Result<(), ControlError> {
    if group.id == 0 {
        return refuse(name(group.id), "0 stands for no group".to_owned());
    }
    let all = group.replicas.iter().chain(group.backups.iter().flatten());
    check_replicas(all, || name(group.id))?;
    for (replica, backups) in group.replicas.iter().zip(&group.backups) {
        if backups.iter().any(|backup| backup.port == replica.port) {
            let problem = format!("the replica to port {} has a backup to the same port", replica.port);
            return refuse(name(group.id), problem);
        }
    }
    Ok(())
}

fn check_session(session: &CloneSession) -> Result<(), ControlError> {
    if !(1..=LAST_SESSION).contains(&session.id) {
        return refuse(session_name(session.id), format!("sessions go from 1 to {LAST_SESSION}"));
    }
    check_replicas(&session.replicas, || session_name(session.id))
}

fn check_replicas<'a>(
    replicas: impl IntoIterator<Item = &'a Replica>,
    place: impl Fn() -> String,
) -> Result<(), ControlError> {
    let mut seen = BTreeSet::new();
    for Replica { port, instance } in replicas {
        if u64::from(*port) >= DROP_PORT {
            return refuse(place(), format!("there is no port {port}: the highest is {}", DROP_PORT - 1));
        }
        if !seen.insert((port, instance)) {
            let problem = format!("the replica to port {port} with instance {instance} is there twice");
            return refuse(place(), problem);
        }
    }
    Ok(())
}

fn refuse(place: String, problem: String) -> Result<(), ControlError> {
    Err(ControlError::InvalidArgument { place, problem })
}
