//! The members of the job, according to the agent's answers.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::regroup::Regroup;

/// The members of the job as the agent's answers state them.
#[derive(Debug)]
pub(crate) struct Membership(Mutex<Members>);

/// The members of one generation, and the change for which this process must synchronise.
#[derive(Debug)]
struct Members {
    generation: u32,
    ranks: Vec<u32>,
    /// The ranks that have left the job, with the reasons.
    lost: BTreeMap<u32, String>,
    shards: Vec<u32>,
    regroup: Option<Regroup>,
    /// The last generation for which this process has synchronised.
    synchronised: u32,
}

impl Membership {
    pub(crate) fn new(generation: u32, ranks: Vec<u32>, shards: Vec<u32>, regroup: Option<Regroup>) -> Self {
        let lost = BTreeMap::new();
        Self(Mutex::new(Members { generation, ranks, lost, shards, regroup, synchronised: 0 }))
    }

    pub(crate) fn generation(&self) -> u32 {
        self.0.lock().generation
    }

    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.0.lock().ranks.clone()
    }

    pub(crate) fn lost(&self) -> BTreeMap<u32, String> {
        self.0.lock().lost.clone()
    }

    pub(crate) fn shards(&self) -> Vec<u32> {
        self.0.lock().shards.clone()
    }

    pub(crate) fn to_synchronise_for(&self) -> Option<Regroup> {
        self.0.lock().regroup.clone()
    }

    /// Takes over an answer's members. Answers may arrive out of order, so an older generation is
    /// ignored.
    pub(crate) fn update(&self, generation: u32, ranks: Vec<u32>, lost: BTreeMap<u32, String>) {
        let mut state = self.0.lock();
        if generation >= state.generation {
            (state.generation, state.ranks, state.lost) = (generation, ranks, lost);
        }
    }

    /// Records that the members must synchronise. Several all-reduces may report the same change, some of
    /// them late.
    pub(crate) fn regroup(&self, regroup: Regroup) -> Regroup {
        let mut state = self.0.lock();
        if regroup.generation > state.synchronised {
            state.shards.clone_from(&regroup.shards);
            state.regroup = Some(regroup.clone());
        }
        regroup
    }

    /// Records that the process has synchronised for this generation.
    pub(crate) fn synchronised(&self, generation: u32) {
        let mut state = self.0.lock();
        state.synchronised = state.synchronised.max(generation);
        state.regroup.take_if(|regroup| regroup.generation <= generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regroup(generation: u32) -> Regroup {
        Regroup { generation, ranks: vec![0, 1], joined: vec![1], leader: 0, shards: vec![generation] }
    }

    #[test]
    fn what_is_said_late_changes_nothing() {
        let membership = Membership::new(1, vec![0], vec![0], None);
        membership.update(3, vec![0, 1], BTreeMap::new());
        membership.update(2, vec![0], BTreeMap::from([(1, "it is gone".to_owned())]));
        assert_eq!((membership.generation(), membership.ranks()), (3, vec![0, 1]));
        assert_eq!(membership.lost(), BTreeMap::new());
        membership.regroup(regroup(3));
        membership.synchronised(3);
        assert_eq!(membership.regroup(regroup(3)), regroup(3), "of an all-reduce behind the first one");
        assert_eq!(membership.to_synchronise_for(), None);
        membership.regroup(regroup(4));
        membership.synchronised(3);
        assert_eq!((membership.to_synchronise_for(), membership.shards()), (Some(regroup(4)), vec![4]));
    }
}
