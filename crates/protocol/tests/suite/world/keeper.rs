//! An attacker between the last switch and the server.
//! It copies finished sums, withholds some of them, and sends them to members.

use std::rc::Rc;

use rand::RngExt;
use tributary_wire::{Header, Kind};

use super::World;
use crate::fabric::{Values, job, with_view};

/// The copied sums of all members. Some of them did not get to the server.
#[derive(Debug, Default)]
pub(crate) struct Keeper(Vec<(Header, Values)>);

impl World {
    /// Starts the attacker: it copies sums, and withholds some of them.
    pub(crate) fn keep_sums(&mut self) {
        self.keeper = Some(Keeper::default());
    }

    /// Returns true if the attacker withholds this sum.
    pub(super) fn keeps(&mut self, header: &Header, values: Option<&Values>) -> bool {
        let all = self.ledger.members().len();
        let (Some(Keeper(kept)), Some(values)) = (&mut self.keeper, values) else { return false };
        let is_finished = header.job == job(self.job) && header.totals.count() as usize == all;
        let takes = is_finished && self.rng.random_bool(0.3);
        if takes {
            kept.push((*header, Rc::clone(values)));
        }
        takes && self.rng.random_bool(0.6)
    }

    /// Sends a sum of the present or an earlier generation to a member, as if the server had sent it in the
    /// present generation. It never does so twice for one slice and member, which would fail the operation.
    pub(super) fn give(&mut self) -> Result<(), String> {
        let Some(Keeper(kept)) = &self.keeper else { return Ok(()) };
        if kept.is_empty() || !self.rng.random_bool(0.1) {
            return Ok(());
        }
        let (header, values) = kept[self.rng.random_range(0..kept.len())].clone();
        let members = self.ledger.members();
        let rank = members[self.rng.random_range(0..members.len())];
        let at = usize::from(rank.get());
        let Some(worker) = &mut self.hosts[at].worker else { return Ok(()) };
        let waits = worker.progress().dues.contains(&header.seq);
        if !waits || !self.damaged.insert((rank, header.seq)) {
            return Ok(());
        }
        let header = Header { kind: Kind::Result, job: job(self.job), rank, retransmit: false, ..header };
        with_view(&values, |view| worker.handle_result(self.now, &header, Some(view)));
        self.see("a sum that was kept back");
        self.drain(at)
    }
}
