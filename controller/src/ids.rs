//! Ids and indices that identify jobs in switches.

use std::collections::VecDeque;

use tributary_wire::JobId;

/// Gives each generation of a job its data-plane id.
///
/// A slot stores the id of the job that last used it. An id must therefore not be used again while a slot may still
/// hold it. For that reason, ids are given out in a cycle of 65,535.
#[derive(Debug, Clone)]
pub(crate) struct JobIds {
    last: u16,
}

impl JobIds {
    /// Creates a cycle that continues after the id `last`.
    /// A controller that does not know which ids it gave out must start at a random id. If it started at a fixed id,
    /// its first job would match the slots of the previous controller's first job.
    pub(crate) fn after(last: u16) -> Self {
        Self { last }
    }

    /// Returns the next id that is not `in_use`; `None` if all ids are.
    pub(crate) fn next(&mut self, in_use: impl Fn(JobId) -> bool) -> Option<JobId> {
        for _ in 0..=u16::MAX {
            self.last = self.last.wrapping_add(1);
            if let Some(id) = JobId::new(self.last).filter(|id| !in_use(*id)) {
                return Some(id);
            }
        }
        None
    }
}

/// Allocates job indices, which select a job's counters.
///
/// It reuses the index that was returned longest ago, so that the counters of an ended job remain readable for as long
/// as possible.
#[derive(Debug, Clone)]
pub(crate) struct JobIndices {
    free: VecDeque<u16>,
}

impl JobIndices {
    /// Creates an allocator of the indices from 0 to `count` - 1.
    pub(crate) fn new(count: u16) -> Self {
        Self { free: (0..count).collect() }
    }

    /// Takes a free index; `None` if there is none.
    pub(crate) fn take(&mut self) -> Option<u16> {
        self.free.pop_front()
    }

    /// Takes `index` for a job that had it under an earlier controller. Returns false if the index is not
    /// free.
    pub(crate) fn claim(&mut self, index: u16) -> bool {
        let place = self.free.iter().position(|free| *free == index);
        place.is_some_and(|place| self.free.remove(place).is_some())
    }

    /// Returns an index to the free indices.
    pub(crate) fn give_back(&mut self, index: u16) {
        if !self.free.contains(&index) {
            self.free.push_back(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_round_past_no_job_and_past_those_in_use() {
        let mut ids = JobIds::after(u16::MAX - 1);
        let none = |_| false;
        assert_eq!(ids.next(none).map(JobId::get), Some(u16::MAX));
        assert_eq!(ids.next(none).map(JobId::get), Some(1));
        assert_eq!(ids.next(|id| id.get() < 5).map(JobId::get), Some(5));
        assert_eq!(ids.next(|_| true), None);
    }

    #[test]
    fn an_id_does_not_come_back_before_all_others() {
        let mut ids = JobIds::after(0);
        let first = ids.next(|_| false);
        let again = (1..).find(|_| ids.next(|_| false) == first);
        assert_eq!(again, Some(usize::from(u16::MAX)));
    }

    #[test]
    fn indices_are_reused_late() {
        let mut indices = JobIndices::new(3);
        assert_eq!(indices.take(), Some(0));
        indices.give_back(0);
        indices.give_back(0);
        let taken: Vec<_> = std::iter::from_fn(|| indices.take()).collect();
        assert_eq!(taken, [1, 2, 0]);
    }
}
