//! The packet replication engine: the copies that a multicast group makes.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::control::{MulticastGroup, Replica};
use crate::error::ControlError;
use crate::program::DROP_PORT;

/// The multicast groups of a switch.
#[derive(Debug, Default)]
pub(crate) struct Replication {
    groups: FxHashMap<u16, Vec<Replica>>,
}

impl Replication {
    /// The copies to make for a group; none for an unknown group.
    #[inline]
    pub(crate) fn replicas(&self, group: u64) -> &[Replica] {
        let group = u16::try_from(group).ok().and_then(|group| self.groups.get(&group));
        group.map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds a group.
    pub(crate) fn insert(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        check(group)?;
        if self.groups.contains_key(&group.id) {
            return Err(ControlError::AlreadyExists(name(group.id)));
        }
        self.groups.insert(group.id, group.replicas.clone());
        Ok(())
    }

    /// Replaces a group's replicas.
    pub(crate) fn modify(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        check(group)?;
        let known = self.groups.get_mut(&group.id).ok_or_else(|| ControlError::NotFound(name(group.id)))?;
        known.clone_from(&group.replicas);
        Ok(())
    }

    /// Removes a group.
    pub(crate) fn delete(&mut self, id: u16) -> Result<(), ControlError> {
        let removed = self.groups.remove(&id);
        removed.map(|_| ()).ok_or_else(|| ControlError::NotFound(name(id)))
    }

    /// All groups, by id.
    pub(crate) fn groups(&self) -> Vec<MulticastGroup> {
        let group =
            |(id, replicas): (&u16, &Vec<Replica>)| MulticastGroup { id: *id, replicas: replicas.clone() };
        let mut groups: Vec<_> = self.groups.iter().map(group).collect();
        groups.sort_by_key(|group| group.id);
        groups
    }
}

fn name(id: u16) -> String {
    format!("multicast group {id}")
}

fn check(group: &MulticastGroup) -> Result<(), ControlError> {
    let refuse = |problem: String| Err(ControlError::InvalidArgument { place: name(group.id), problem });
    if group.id == 0 {
        return refuse("0 stands for no group".to_owned());
    }
    let mut seen = BTreeSet::new();
    for replica in &group.replicas {
        if u64::from(replica.port) >= DROP_PORT {
            return refuse(format!("there is no port {}: the highest is {}", replica.port, DROP_PORT - 1));
        }
        if !seen.insert((replica.port, replica.instance)) {
            let (port, instance) = (replica.port, replica.instance);
            return refuse(format!("the replica to port {port} with instance {instance} is there twice"));
        }
    }
    Ok(())
}
