//! Recent events: a ring in memory that drops the oldest event for each new one.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tributary_api::v1;
use tributary_api::v1::EventKind;

use crate::clock;

/// The number of events that are kept. A job of 64 workers can lose and regain all of them several
/// times within it.
const KEPT: usize = 512;
/// The maximum length of a description in characters. A limit is needed because a member's reason for
/// leaving is free text.
const LONGEST: usize = 400;

/// The latest events, which all threads may add to and read.
#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    /// The total number of events since the controller started. It is also the number of the latest event.
    count: u64,
    /// The last `KEPT` events, the oldest first.
    last: VecDeque<v1::FabricEvent>,
}

impl Events {
    /// Adds an event about a switch, a host or a cable. `node` is empty for a cable.
    pub(crate) fn of_node(&self, kind: EventKind, node: &str, description: &str) {
        self.note(kind, "", node, description);
    }

    /// Adds an event about a job.
    pub(crate) fn of_job(&self, kind: EventKind, job: &str, description: &str) {
        self.note(kind, job, "", description);
    }

    /// Adds an event about a host that takes part in a job.
    pub(crate) fn of_member(&self, kind: EventKind, job: &str, host: &str, description: &str) {
        self.note(kind, job, host, description);
    }

    fn note(&self, kind: EventKind, job: &str, node: &str, description: &str) {
        let mut ring = self.0.lock();
        ring.count += 1;
        let event = v1::FabricEvent {
            number: ring.count,
            unix_milliseconds: clock::unix_milliseconds(),
            kind: kind.into(),
            job: job.to_owned(),
            node: node.to_owned(),
            description: plain(description),
        };
        if ring.last.len() == KEPT {
            ring.last.pop_front();
        }
        ring.last.push_back(event);
    }

    /// Returns the kept events with a higher number than `number`, the oldest first.
    pub(crate) fn after(&self, number: u64) -> Vec<v1::FabricEvent> {
        self.0.lock().last.iter().filter(|event| event.number > number).cloned().collect()
    }
}

/// Converts a peer's text for display: at most `LONGEST` characters, without terminal control
/// characters.
pub(crate) fn plain(text: &str) -> String {
    let harmless =
        |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    let end = text.chars().nth(LONGEST).map(|_| '…');
    text.chars().take(LONGEST).map(harmless).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_are_kept_and_numbers_go_on() {
        let events = Events::default();
        assert!(events.after(0).is_empty());
        for number in 0..KEPT + 3 {
            events.of_job(EventKind::JobCreated, &format!("job{number}"), "created");
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].number, all[0].job.as_str()), (KEPT, 4, "job3"));
        let last = KEPT as u64 + 3;
        assert_eq!(events.after(last - 1).len(), 1);
        assert!(events.after(last).is_empty());
    }

    #[test]
    fn nobody_fills_the_memory_with_one_event() {
        let events = Events::default();
        events.of_member(EventKind::MemberLeft, "digits", "w0", &"é".repeat(9_000));
        let kept = events.after(0).remove(0);
        assert_eq!(kept.description.chars().count(), LONGEST + 1);
        assert_eq!(plain("two\nlines \u{1b}]0;owned\u{7}"), "two\u{fffd}lines \u{fffd}]0;owned\u{fffd}");
        assert_eq!(
            (kept.job.as_str(), kept.node.as_str(), kept.kind()),
            ("digits", "w0", EventKind::MemberLeft)
        );
    }
}
