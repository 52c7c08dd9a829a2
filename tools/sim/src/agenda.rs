//! The scheduled events, in the order of time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events and their times. Events at the same instant happen in the order in which they were scheduled.
#[derive(Debug)]
pub(crate) struct Agenda<T, E> {
    events: BinaryHeap<Reverse<Scheduled<T, E>>>,
    scheduled: u64,
}

#[derive(Debug)]
struct Scheduled<T, E> {
    at: T,
    order: u64,
    event: E,
}

impl<T, E> PartialEq for Scheduled<T, E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl<T, E> Eq for Scheduled<T, E> {}
impl<T: Ord, E> PartialOrd for Scheduled<T, E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: Ord, E> Ord for Scheduled<T, E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.at, self.order).cmp(&(&other.at, other.order))
    }
}

impl<T: Ord + Copy, E> Agenda<T, E> {
    pub(crate) fn new() -> Self {
        Self { events: BinaryHeap::new(), scheduled: 0 }
    }

    pub(crate) fn schedule(&mut self, at: T, event: E) {
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at, order: self.scheduled, event }));
    }

    /// Returns the time of the next event.
    pub(crate) fn next_at(&self) -> Option<T> {
        self.events.peek().map(|Reverse(next)| next.at)
    }

    /// Removes and returns the next event.
    pub(crate) fn pop(&mut self) -> Option<(T, E)> {
        self.events.pop().map(|Reverse(next)| (next.at, next.event))
    }
}
