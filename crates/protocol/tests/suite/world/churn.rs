//! Random events for the parts of a job while it runs (churn).

use rand::RngExt;
use tributary_wire::Rank;

use super::World;

/// The limit on pending orders of a host, and on pending notifications of the controller.
const BACKLOG: usize = 6;

/// An event that will be reported to the controller.
#[derive(Debug, Clone, Copy)]
pub(super) enum News {
    Dead(Rank),
    ServerDead,
}

/// The kinds of events that may happen, and their probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Churn {
    /// The probability of an event in a step.
    pub(crate) rate: f64,
    /// The probability, in a step, that controller and members exchange a message.
    /// So their messages may be slow or fast compared with packets.
    pub(crate) talk: f64,
    /// True if the controller may regard slow members as dead.
    pub(crate) impatient: bool,
    /// True if members leave, die and return.
    pub(crate) members: bool,
    /// True if servers die and move.
    pub(crate) servers: bool,
    /// True if processes abandon operations.
    pub(crate) abandons: bool,
}

impl Churn {
    pub(crate) const NONE: Self =
        Self { rate: 0.0, talk: 0.0, impatient: false, members: false, servers: false, abandons: false };
}

impl World {
    /// Lets a random event happen, with the configured probability.
    pub(super) fn churn(&mut self) {
        let churn = self.churn;
        // The numbers of pending notifications and orders are limited.
        let overtaken =
            self.news.len() > BACKLOG || self.hosts.iter().any(|host| host.orders.len() > BACKLOG);
        if churn.rate == 0.0 || overtaken || !self.rng.random_bool(churn.rate) {
            return;
        }
        let rank = Rank::new(self.rng.random_range(0..self.hosts.len()) as u16);
        let at = usize::from(rank.get());
        let (is_member, alive) = (self.ledger.members().contains(&rank), self.hosts[at].is_alive());
        match self.rng.random_range(0..9) {
            0 if churn.members && is_member && self.can_lose(rank) => {
                self.hosts[at].die();
                self.news.push(News::Dead(rank));
            }
            1 if churn.members && is_member && self.can_lose(rank) => self.controller.leaves(rank),
            2..6 if churn.members && !is_member && !alive => drop(self.controller.returning.insert(rank)),
            6 if churn.servers && self.servers.remove(&self.fabric.server).is_some() => {
                self.see("a server that died");
                self.news.push(News::ServerDead);
            }
            7 if churn.servers => self.controller.move_server = true,
            8 => self.controller.replan = true,
            _ if churn.abandons => self.hosts[at].abandon_oldest(),
            _ => {}
        }
    }

    fn is_dead_member(&self, rank: Rank) -> bool {
        self.ledger.members().contains(&rank) && !self.hosts[usize::from(rank.get())].is_alive()
    }

    /// Returns true if the job survives the loss of this member.
    pub(super) fn can_lose(&self, rank: Rank) -> bool {
        let stays = |other: &&Rank| {
            **other != rank
                && self.hosts[usize::from(other.get())].is_alive()
                && !self.controller.gone.contains(other)
        };
        self.ledger.members().iter().any(|other| stays(&other))
    }

    /// Notifies the controller of an event, some time after the event.
    pub(super) fn hear(&mut self) {
        let Some(at) = self.news.len().checked_sub(1) else { return };
        match self.news.swap_remove(self.rng.random_range(0..=at)) {
            // The member may have been removed already because it did not answer, and may have returned.
            News::Dead(rank) if self.is_dead_member(rank) => self.controller.leaves(rank),
            News::ServerDead if !self.servers.contains_key(&self.fabric.server) => {
                self.controller.server_died();
            }
            _ => {}
        }
    }
}
