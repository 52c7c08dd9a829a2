//! Detects the failure of a part that should send signs of life regularly: a state
//! machine with hysteresis.

/// Beats without a sign of life after which a part is dead.
/// Ten probes in a row are not lost by chance, and a busy machine does not delay its processes for that long.
const DEAD_AFTER: u32 = 10;
/// Surplus of beats with a sign of life over beats without one, after which a dead part is alive again.
/// A cable with a loose contact never reaches it. The cable of a busy machine that loses a probe now and then does.
const ALIVE_AFTER: u32 = 5;
/// Number of silent beats that count at once when the reporters of signs of life can be reached again:
/// their late reports may still be on the way.
const BELIEVED_AT_ONCE: u32 = 3;

/// Tracks signs of life and beats of the clock.
/// Time is counted in beats, not in seconds, so that a delayed clock declares nothing dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detector {
    state: State,
    heard: bool,
    /// Beats without a sign of life after which the part is dead.
    dead_after: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No sign of life has arrived yet. The part may be unable to send any, so it does not count as silent.
    Unknown {
        /// Beats that certainly had no sign of life.
        certain: u32,
    },
    Alive {
        /// Beats without a sign of life.
        silent: u32,
        /// The number of silent beats that certainly had no sign of life.
        certain: u32,
    },
    Dead {
        /// The number of beats with a sign of life, minus the number of beats without one.
        steady: u32,
    },
}

impl State {
    const ALIVE: Self = Self::Alive { silent: 0, certain: 0 };
}

impl Detector {
    /// Creates a detector without any knowledge.
    /// Signs of life may be up to `late` beats late, because of the frames queued before them.
    pub(super) fn new(late: u32) -> Self {
        let dead_after = DEAD_AFTER.saturating_add(late);
        Self { state: State::Unknown { certain: 0 }, heard: false, dead_after }
    }

    /// Notes a sign of life.
    pub(super) fn hear(&mut self) {
        self.heard = true;
    }

    /// Ends a beat. `audible`: the reporters of signs of life were themselves reachable.
    pub(super) fn beat(&mut self, audible: bool) {
        let heard = std::mem::take(&mut self.heard);
        self.state = match (self.state, heard) {
            (State::Unknown { certain }, false) if audible && certain + 1 >= self.dead_after => {
                State::Dead { steady: 0 }
            }
            (State::Unknown { certain }, false) => State::Unknown { certain: certain + u32::from(audible) },
            (State::Unknown { .. } | State::Alive { .. }, true) => State::ALIVE,
            (State::Alive { silent, certain }, false) => {
                let silent = silent.saturating_add(1);
                let certain = if audible { silent.min(certain + BELIEVED_AT_ONCE) } else { certain };
                match certain < self.dead_after {
                    true => State::Alive { silent, certain },
                    false => State::Dead { steady: 0 },
                }
            }
            (State::Dead { steady }, false) if audible => State::Dead { steady: steady.saturating_sub(1) },
            (State::Dead { .. }, false) => self.state,
            (State::Dead { steady }, true) if steady + 1 < ALIVE_AFTER => State::Dead { steady: steady + 1 },
            (State::Dead { .. }, true) => State::ALIVE,
        };
    }

    /// Ends a beat in which no sign of life was possible: the sender or the listener was away.
    pub(super) fn skip(&mut self) {
        self.heard = false;
        match &mut self.state {
            State::Unknown { certain } => *certain = 0,
            State::Alive { silent, certain } => (*silent, *certain) = (0, 0),
            State::Dead { .. } => {}
        }
    }

    /// Returns true if the part is known to be dead.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, State::Dead { .. })
    }

    /// Returns true if a sign of life has arrived recently.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.state, State::Alive { silent, .. } if silent < self.dead_after)
    }

    /// Returns true if the part has been silent long enough to be dead, but the silence is not certain.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, State::Alive { silent, .. } if silent >= self.dead_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs beats: "!" with a sign of life, "." certainly without one, "?" without one that could have been
    /// reported, "-" skipped. Marks where the part became silent ("S"), died ("D") and came alive ("A").
    fn trace(detector: &mut Detector, beats: &str) -> String {
        let beat = |beat| {
            let before = (detector.is_silent(), detector.is_dead());
            match beat {
                '-' => detector.skip(),
                '!' => {
                    detector.hear();
                    detector.beat(true);
                }
                beat => detector.beat(beat == '.'),
            }
            match (before, (detector.is_silent(), detector.is_dead())) {
                ((_, false), (_, true)) => 'D',
                ((_, true), (_, false)) => 'A',
                ((false, _), (true, _)) => 'S',
                _ => beat,
            }
        };
        beats.chars().map(beat).collect()
    }

    #[test]
    fn silence_kills_and_a_pulse_revives() {
        let cases = [
            ("..........", ".........D"),
            (".....-.........!", ".....-.........!"),
            ("!..........", "!.........D"),
            ("!.........!.........", "!.........!........."),
            ("!..........!!!!!", "!.........D!!!!A"),
            ("!..........!!!!.!!", "!.........D!!!!.!A"),
            ("!..........!.!.!.!.!.!.", "!.........D!.!.!.!.!.!."),
            ("!.....-.....-.........", "!.....-.....-........."),
            ("!.....-..........", "!.....-.........D"),
            ("!..........-----!!!!!", "!.........D-----!!!!A"),
        ];
        for (beats, expected) in cases {
            let mut detector = Detector::new(0);
            assert_eq!(trace(&mut detector, beats), expected);
        }
    }

    #[test]
    fn what_may_be_late_is_waited_for() {
        let mut detector = Detector::new(7);
        assert_eq!(
            trace(&mut detector, "!................!................."),
            "!................!................D"
        );
        assert_eq!(trace(&mut detector, "!!!!!????????????????????"), "!!!!A????????????????S???");
    }

    #[test]
    fn silence_of_those_who_would_tell_is_no_proof() {
        let cases = [
            ("????????????????????", "????????????????????"),
            ("!????????????????????", "!?????????S??????????"),
            ("!???????????????!", "!?????????S?????!"),
            // The reporters are reachable again, and no sign of life arrives: the part is dead, but not at once.
            ("!???????????????....", "!?????????S?????...D"),
            ("!???????????????..!", "!?????????S?????..!"),
            // An occasional certain beat is enough.
            ("!.?.?.?.?.?", "!.?.?.?.?.S"),
            ("!.?.?.?.?.?.", "!.?.?.?.?.SD"),
        ];
        for (beats, expected) in cases {
            let mut detector = Detector::new(0);
            assert_eq!(trace(&mut detector, beats), expected, "{beats}");
        }
    }

    #[test]
    fn what_was_lost_now_and_then_was_never_dead() {
        let mut detector = Detector::new(0);
        let beats = "!.!!...!.!.....!!.!...!.......!".repeat(50);
        assert_eq!(trace(&mut detector, &beats), beats);
        assert!(!detector.is_dead());
    }
}
