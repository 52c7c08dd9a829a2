//! Compares adaptive synchronisation with a simple reference that follows the restatement of the
//! algorithm line by line.

use std::num::NonZeroU64;

use proptest::prelude::*;
use tributary_ps::policy::{A2s, Action, Policy, Spread, WeightedGradient, Worker};

use crate::support::Clock;

/// The server's state, with the names of the restatement.
struct Reference {
    m: u64,
    slack: u64,
    it: Vec<Option<u64>>,
    /// The `ep` of all workers at the last ranking.
    ep_then: Vec<u64>,
    sync: Vec<usize>,
    lst: Vec<usize>,
    clk: u64,
}

/// An update: the workers, and the share ω of each, as integers that are divided by their sum.
type Update = Vec<(usize, u64)>;

/// The outcome of an event: the updates, and the workers that were sent W, in the order of the updates.
#[derive(Debug, Default, PartialEq)]
struct EventOutcome {
    updates: Vec<Update>,
    sent: Vec<usize>,
}

impl Reference {
    fn new(workers: usize, m: u64, slack: u64) -> Self {
        let it = vec![Some(0); workers];
        Self { m, slack, it, ep_then: vec![0; workers], sync: vec![], lst: vec![], clk: 0 }
    }

    fn present(&self) -> Vec<usize> {
        (0..self.it.len()).filter(|&w| self.it[w].is_some()).collect()
    }

    fn ep(&self, w: usize) -> u64 {
        self.it[w].unwrap() / self.m
    }

    fn arrives(&mut self, w: usize) -> EventOutcome {
        let mut out = EventOutcome::default();
        *self.it[w].as_mut().unwrap() += 1;
        // "once lst is non-empty, clk counts every arrival"
        let counts = !self.lst.is_empty();
        if counts {
            self.clk += 1;
        }
        if self.sync.contains(&w) {
            // "one from sync is appended to lst; when lst holds all of sync, or clk exceeds the slack, it is
            // aggregated"
            self.lst.push(w);
        } else {
            // "each arriving gradient is applied at once, and W goes back to that worker alone"
            out.updates.push(vec![(w, 1)]);
            out.sent.push(w);
        }
        let all = !self.lst.is_empty() && self.sync.iter().all(|w| self.lst.contains(w));
        if all || self.clk > self.slack {
            self.aggregate(&mut out);
        }
        self.epochs(&mut out);
        out
    }

    fn leaves(&mut self, w: usize) -> EventOutcome {
        let mut out = EventOutcome::default();
        // "a worker that leaves is removed and lst is flushed"
        self.aggregate(&mut out);
        self.it[w] = None;
        self.sync.retain(|&other| other != w);
        self.epochs(&mut out);
        out.sent.retain(|&other| other != w);
        out
    }

    fn aggregate(&mut self, out: &mut EventOutcome) {
        if !self.lst.is_empty() {
            out.updates.push(self.lst.iter().map(|&w| (w, self.it[w].unwrap())).collect());
            out.sent.extend(&self.lst);
        }
        self.lst.clear();
        self.clk = 0;
    }

    fn epochs(&mut self, out: &mut EventOutcome) {
        let there = self.present();
        if there.is_empty() || !there.iter().all(|&w| self.ep(w) > self.ep_then[w]) {
            return;
        }
        // "when all workers have finished another epoch, dissolve sync": workers that wait in lst continue
        self.aggregate(out);
        self.sync.clear();
        // "go to 1": sync is empty, and every worker has finished one more epoch. "Rank workers by epoch,
        // s = max − min; if s > 1, the s fastest workers form sync (at most N−1)"
        let max = there.iter().map(|&w| self.ep(w)).max().unwrap();
        let min = there.iter().map(|&w| self.ep(w)).min().unwrap();
        let mut ranking = there.clone();
        ranking.sort_by(|&a, &b| self.it[b].cmp(&self.it[a]).then(a.cmp(&b)));
        let s = max - min;
        if s > 1 {
            ranking.truncate((s as usize).min(there.len() - 1));
            self.sync = ranking;
        }
        for &w in &there {
            self.ep_then[w] = self.ep(w);
        }
    }
}

fn outcome(actions: &[Action]) -> EventOutcome {
    let mut out = EventOutcome::default();
    for action in actions {
        match action {
            Action::Apply(parts) => {
                let part = |part: &WeightedGradient| (usize::from(part.worker), part.weight);
                out.updates.push(parts.iter().map(part).collect());
            }
            Action::Release(worker) => out.sent.push(usize::from(*worker)),
        }
    }
    out
}

proptest! {
    #[test]
    fn adaptive_synchronisation_is_what_the_restatement_says(
        step_times in prop::collection::vec(1u64..60, 1..10),
        m in 1u64..8,
        slack in 0u64..9,
        mut leavers in prop::collection::vec((0usize..400, 0usize..10), 0..4),
    ) {
        let n = step_times.len();
        let mut reference = Reference::new(n, m, slack);
        let mut policy = A2s::new(NonZeroU64::new(m).unwrap(), slack, Spread::Total);
        let mut clock = Clock::new(&step_times);
        for worker in 0..n as Worker {
            policy.join(worker, 0);
            clock.release(worker);
        }
        leavers.sort_unstable();
        for arrival in 0..400 {
            while let Some(&(_, w)) = leavers.first().filter(|(when, _)| *when == arrival) {
                leavers.remove(0);
                if w >= n || reference.it[w].is_none() {
                    continue;
                }
                clock.remove(w as Worker);
                let (expected, got) = (reference.leaves(w), outcome(&policy.leave(w as Worker)));
                got.sent.iter().for_each(|&w| clock.release(w as Worker));
                prop_assert_eq!(got, expected);
            }
            let Some(worker) = clock.arrival() else { break };
            let (expected, got) = (reference.arrives(usize::from(worker)), outcome(&policy.arrive(worker, clock.instant())));
            got.sent.iter().for_each(|&w| clock.release(w as Worker));
            prop_assert_eq!(got, expected);
            let mut sync = reference.sync.clone();
            sync.sort_unstable();
            prop_assert_eq!(policy.group().into_iter().map(usize::from).collect::<Vec<_>>(), sync);
        }
    }
}
