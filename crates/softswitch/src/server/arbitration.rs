//! P4Runtime's client arbitration within a role, without I/O: decides which controller may write.
//!
//! Of the connected controllers of a role, the controller with the highest election id is primary.
//! When it leaves, the next controller takes over at once, as with simple_switch_grpc. By the
//! specification, the next controller would have to send its election id again, and it may still do
//! so. A controller whose election id is unset or 0 never becomes primary: it only receives.

use std::collections::BTreeMap;

use tributary_p4runtime::google::rpc::{Code, Status};
use tributary_p4runtime::p4::v1::{MasterArbitrationUpdate, Role, Uint128};

/// The maximum number of controllers of a role at once, which is also the limit of
/// simple_switch_grpc.
pub(super) const MAX_CONTROLLERS: usize = 16;

/// The id of a connection within its role. It does not depend on the election id.
pub(super) type ConnectionId = u64;

/// The reason why an arbitration request ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejected {
    /// Another connection uses this election id.
    IdInUse(u128),
    /// The role already has [`MAX_CONTROLLERS`] controllers.
    TooMany,
}

/// The connected controllers of a role. `S` is the type of a controller's mailbox.
#[derive(Debug)]
pub(super) struct Arbitration<S> {
    controllers: BTreeMap<ConnectionId, Controller<S>>,
    next: ConnectionId,
}

#[derive(Debug)]
struct Controller<S> {
    election_id: u128,
    mailbox: S,
}

impl<S> Default for Arbitration<S> {
    fn default() -> Self {
        Self { controllers: BTreeMap::new(), next: 0 }
    }
}

impl<S> Arbitration<S> {
    /// Adds a controller with its first arbitration request. Returns the connections to
    /// notify.
    pub(super) fn join(
        &mut self,
        election_id: u128,
        mailbox: S,
    ) -> Result<(ConnectionId, Vec<ConnectionId>), Rejected> {
        if self.controllers.len() >= MAX_CONTROLLERS {
            return Err(Rejected::TooMany);
        }
        self.check_free(election_id, None)?;
        let id = self.next;
        self.next += 1;
        self.controllers.insert(id, Controller { election_id, mailbox });
        Ok((id, if self.primary_id() == Some(id) { self.everyone() } else { vec![id] }))
    }

    /// Handles a further arbitration request of a connected controller, perhaps with another
    /// election id.
    pub(super) fn claim(
        &mut self,
        id: ConnectionId,
        election_id: u128,
    ) -> Result<Vec<ConnectionId>, Rejected> {
        self.check_free(election_id, Some(id))?;
        let before = self.primary_id();
        if let Some(controller) = self.controllers.get_mut(&id) {
            controller.election_id = election_id;
        }
        let after = self.primary_id();
        // A primary that raises its id stays primary, but the others must receive the new id.
        let touches_primary = before == Some(id) || after == Some(id);
        Ok(if touches_primary { self.everyone() } else { vec![id] })
    }

    /// Removes a connection that has ended. Returns the connections to notify.
    pub(super) fn leave(&mut self, id: ConnectionId) -> Vec<ConnectionId> {
        let was_primary = self.primary_id() == Some(id);
        self.controllers.remove(&id);
        if was_primary { self.everyone() } else { Vec::new() }
    }

    /// Returns true if no controller is connected.
    pub(super) fn is_empty(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Returns the arbitration message for one controller, and the controller's mailbox.
    pub(super) fn verdict(
        &self,
        id: ConnectionId,
        device_id: u64,
        role: &str,
    ) -> Option<(MasterArbitrationUpdate, &S)> {
        let controller = self.controllers.get(&id)?;
        let primary = self.primary();
        let (code, words) = match primary {
            Some((primary, _)) if primary == id => (Code::Ok, "this controller is primary"),
            Some(_) => (Code::AlreadyExists, "another controller is primary"),
            None => (Code::NotFound, "no controller is primary"),
        };
        let update = MasterArbitrationUpdate {
            device_id,
            role: (!role.is_empty()).then(|| Role { name: role.to_owned(), ..Role::default() }),
            election_id: primary.map(|(_, one)| to_wire(one.election_id)),
            status: Some(Status { code: code.into(), message: words.to_owned(), details: Vec::new() }),
        };
        Some((update, &controller.mailbox))
    }

    /// Returns true if this election id is the primary's.
    pub(super) fn is_primary(&self, election_id: u128) -> bool {
        self.primary().is_some_and(|(_, primary)| primary.election_id == election_id)
    }

    /// Returns true if this connection is the primary's.
    pub(super) fn is_primary_connection(&self, id: ConnectionId) -> bool {
        self.primary_id() == Some(id)
    }

    /// Returns the primary's mailbox.
    pub(super) fn primary_mailbox(&self) -> Option<&S> {
        self.primary().map(|(_, primary)| &primary.mailbox)
    }

    fn primary(&self) -> Option<(ConnectionId, &Controller<S>)> {
        let (id, highest) = self.controllers.iter().max_by_key(|(_, one)| one.election_id)?;
        (highest.election_id > 0).then_some((*id, highest))
    }

    fn primary_id(&self) -> Option<ConnectionId> {
        self.primary().map(|(id, _)| id)
    }

    fn everyone(&self) -> Vec<ConnectionId> {
        self.controllers.keys().copied().collect()
    }

    fn check_free(&self, election_id: u128, own: Option<ConnectionId>) -> Result<(), Rejected> {
        let taken =
            self.controllers.iter().any(|(id, one)| one.election_id == election_id && Some(*id) != own);
        if taken && election_id > 0 { Err(Rejected::IdInUse(election_id)) } else { Ok(()) }
    }
}

pub(super) fn from_wire(id: Option<&Uint128>) -> u128 {
    id.map_or(0, |id| u128::from(id.high) << 64 | u128::from(id.low))
}

fn to_wire(id: u128) -> Uint128 {
    let half = |part: u128| u64::try_from(part & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    Uint128 { high: half(id >> 64), low: half(id) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Join(u128),
        Claim(usize, u128),
        Leave(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let id = prop_oneof![0u128..6, Just(u128::MAX), Just(1 << 64)];
        prop_oneof![
            3 => id.clone().prop_map(Step::Join),
            2 => (any::<usize>(), id).prop_map(|(who, id)| Step::Claim(who, id)),
            1 => any::<usize>().prop_map(Step::Leave),
        ]
    }

    /// The last message to each controller.
    type Told = HashMap<ConnectionId, MasterArbitrationUpdate>;

    fn tell(arbitration: &Arbitration<()>, to: Vec<ConnectionId>, told: &mut Told) {
        for id in to {
            told.insert(id, arbitration.verdict(id, 7, "").unwrap().0);
        }
    }

    fn take(arbitration: &mut Arbitration<()>, step: &Step, told: &mut Told) {
        let someone = |who: usize, told: &Told| {
            let mut ids: Vec<_> = told.keys().copied().collect();
            ids.sort_unstable();
            (!ids.is_empty()).then(|| ids[who % ids.len()])
        };
        match *step {
            Step::Join(election_id) => {
                if let Ok((_, to)) = arbitration.join(election_id, ()) {
                    tell(arbitration, to, told);
                }
            }
            Step::Claim(who, election_id) => {
                let Some(id) = someone(who, told) else { return };
                if let Ok(to) = arbitration.claim(id, election_id) {
                    tell(arbitration, to, told);
                }
            }
            Step::Leave(who) => {
                let Some(id) = someone(who, told) else { return };
                let to = arbitration.leave(id);
                told.remove(&id);
                tell(arbitration, to, told);
            }
        }
    }

    proptest! {
        /// Checks that each controller's last message is still true, and that only the primary was
        /// notified as primary.
        #[test]
        fn everyone_knows_who_is_primary(steps in prop::collection::vec(step(), 0..60)) {
            let mut arbitration = Arbitration::default();
            let mut told = Told::new();
            for step in &steps {
                take(&mut arbitration, step, &mut told);
                prop_assert_eq!(told.len(), arbitration.controllers.len());
                let highest = arbitration.controllers.values().map(|one| one.election_id).max().unwrap_or(0);
                for (id, last) in &told {
                    let own = arbitration.controllers[id].election_id;
                    let expected = match (own, highest) {
                        (_, 0) => Code::NotFound,
                        (own, highest) if own == highest => Code::Ok,
                        _ => Code::AlreadyExists,
                    };
                    prop_assert_eq!(last.status.as_ref().unwrap().code, i32::from(expected));
                    prop_assert_eq!(from_wire(last.election_id.as_ref()), highest);
                    prop_assert_eq!(arbitration.is_primary(own), own == highest && own > 0);
                }
            }
        }
    }

    #[test]
    fn an_election_id_belongs_to_one_connection() {
        let mut arbitration = Arbitration::default();
        let (first, _) = arbitration.join(5, ()).unwrap();
        assert_eq!(arbitration.join(5, ()), Err(Rejected::IdInUse(5)));
        let (second, told) = arbitration.join(4, ()).unwrap();
        assert_eq!(told, [second]);
        assert_eq!(arbitration.claim(second, 5), Err(Rejected::IdInUse(5)));
        assert_eq!(arbitration.claim(first, 5), Ok(vec![first, second]));
        assert_eq!(arbitration.leave(first), [second]);
        assert!(arbitration.is_primary(4));
    }

    #[test]
    fn listeners_without_an_id_are_many_and_never_primary() {
        let mut arbitration = Arbitration::default();
        for _ in 0..MAX_CONTROLLERS {
            let (id, _) = arbitration.join(0, ()).unwrap();
            assert!(!arbitration.is_primary_connection(id));
        }
        assert!(!arbitration.is_primary(0) && arbitration.primary_mailbox().is_none());
        assert_eq!(arbitration.join(1, ()), Err(Rejected::TooMany));
    }
}
