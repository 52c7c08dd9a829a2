//! Roles, each of which has its own primary controller.
//!
//! To restrict a role, server and controllers would have to agree on a scheme. This server has
//! none, so each role has access to the whole pipeline. The specification defines this for roles
//! without a config. A role exists while one of its controllers is connected.

use std::collections::BTreeMap;

use tributary_p4runtime::p4::v1::Role;

use super::arbitration::{Arbitration, ConnectionId, Rejected};
use super::status::Refusal;

/// The maximum number of bytes of a role's name.
const MAX_NAME: usize = 256;

/// The connected controllers by role. `S` is the type of a controller's mailbox.
#[derive(Debug)]
pub(super) struct Roles<S>(BTreeMap<String, Arbitration<S>>);

impl<S> Default for Roles<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S> Roles<S> {
    /// Returns a role; `None` if none of its controllers is connected.
    pub(super) fn get(&self, role: &str) -> Option<&Arbitration<S>> {
        self.0.get(role)
    }

    /// Adds a controller with its first arbitration request. Returns the connections to
    /// notify.
    pub(super) fn join(
        &mut self,
        role: &str,
        election_id: u128,
        mailbox: S,
    ) -> Result<(ConnectionId, Vec<ConnectionId>), Rejected> {
        // A rejected request does not create a role, because a request is rejected only if the role
        // has other controllers.
        self.0.entry(role.to_owned()).or_default().join(election_id, mailbox)
    }

    /// Handles a further arbitration request of a connected controller. Returns the connections to
    /// notify.
    pub(super) fn claim(
        &mut self,
        role: &str,
        id: ConnectionId,
        election_id: u128,
    ) -> Result<Vec<ConnectionId>, Rejected> {
        self.0.get_mut(role).map_or(Ok(Vec::new()), |controllers| controllers.claim(id, election_id))
    }

    /// Removes a connection that has ended. Returns the connections to notify.
    pub(super) fn leave(&mut self, role: &str, id: ConnectionId) -> Vec<ConnectionId> {
        let Some(controllers) = self.0.get_mut(role) else { return Vec::new() };
        let told = controllers.leave(id);
        if controllers.is_empty() {
            self.0.remove(role);
        }
        told
    }

    /// Returns true if this connection is its role's primary.
    pub(super) fn is_primary_connection(&self, role: &str, id: ConnectionId) -> bool {
        self.get(role).is_some_and(|controllers| controllers.is_primary_connection(id))
    }

    /// Returns the mailboxes of all roles' primaries.
    pub(super) fn primary_mailboxes(&self) -> impl Iterator<Item = &S> {
        self.0.values().filter_map(Arbitration::primary_mailbox)
    }
}

/// Returns the name of the role in an arbitration request; empty for the default role.
pub(super) fn claimed(role: Option<&Role>) -> Result<&str, Refusal> {
    let Some(role) = role else { return Ok("") };
    if role.config.is_some() {
        return Err(Refusal::invalid("no scheme of role configs is known here: leave the role's config out"));
    }
    if role.id != 0 {
        return Err(Refusal::invalid("roles have names here: give the role a name, and no id"));
    }
    if role.name.len() > MAX_NAME {
        return Err(Refusal::invalid(format!("a role's name has at most {MAX_NAME} bytes")));
    }
    Ok(&role.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_own_primary() {
        let mut roles = Roles::default();
        let (first, _) = roles.join("", 5, "first").unwrap();
        let (second, told) = roles.join("stats", 5, "second").unwrap();
        assert_eq!(told, [second]);
        assert_eq!(roles.join("stats", 5, "third"), Err(Rejected::IdInUse(5)));
        assert!(roles.is_primary_connection("", first) && roles.is_primary_connection("stats", second));
        assert_eq!(roles.primary_mailboxes().collect::<Vec<_>>(), [&"first", &"second"]);
        assert_eq!(roles.claim("stats", second, 0), Ok(vec![second]));
        assert_eq!(roles.primary_mailboxes().collect::<Vec<_>>(), [&"first"]);
        roles.leave("stats", second);
        assert!(roles.get("stats").is_none() && roles.get("").is_some());
    }
}
