//! The control plane's access to multicast groups and clone sessions.

use super::{CloneSession, MulticastGroup};
use crate::error::ControlError;
use crate::switch::Switch;

impl Switch {
    /// Adds a multicast group.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument` (group 0, a port that no switch has, a replica twice),
    /// `AlreadyExists`.
    pub fn insert_group(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        self.replication.insert(group)
    }

    /// Replaces a multicast group.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument`, `NotFound`.
    pub fn modify_group(&mut self, group: &MulticastGroup) -> Result<(), ControlError> {
        self.replication.modify(group)
    }

    /// Removes a multicast group.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_group(&mut self, id: u16) -> Result<(), ControlError> {
        self.replication.delete(id)
    }

    /// Returns all multicast groups, by id.
    pub fn groups(&self) -> Vec<MulticastGroup> {
        self.replication.groups()
    }

    /// Adds a clone session.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument` (a session that no program can name, a port that no switch has, a replica
    /// twice), `AlreadyExists`.
    pub fn insert_session(&mut self, session: &CloneSession) -> Result<(), ControlError> {
        self.replication.insert_session(session)
    }

    /// Replaces a clone session.
    ///
    /// # Errors
    /// [`ControlError`]: `InvalidArgument`, `NotFound`.
    pub fn modify_session(&mut self, session: &CloneSession) -> Result<(), ControlError> {
        self.replication.modify_session(session)
    }

    /// Removes a clone session.
    ///
    /// # Errors
    /// [`ControlError::NotFound`].
    pub fn delete_session(&mut self, id: u16) -> Result<(), ControlError> {
        self.replication.delete_session(id)
    }

    /// Returns all clone sessions, by id.
    pub fn sessions(&self) -> Vec<CloneSession> {
        self.replication.sessions()
    }
}
