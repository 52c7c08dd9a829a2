//! Whether something that should be heard from again and again is alive: a state machine with hysteresis.

/// Beats without a sign of life after which something is dead: ten probes are not lost by chance, and a busy machine
/// does not hold up its processes for so long.
const DEAD_AFTER: u32 = 10;
/// Beats in a row with a sign of life after which something that was dead is alive: a cable with a loose contact is
/// not.
const ALIVE_AFTER: u32 = 5;

/// Hears signs of life, and is told of each beat of the clock. Time is counted in beats, and not in seconds, so that
/// a clock that was held up kills nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Detector {
    state: State,
    heard: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nothing was ever heard: it may be one that cannot be heard at all, and is not called dead for that.
    #[default]
    Unknown,
    Alive {
        /// Beats without a sign of life.
        silent: u32,
    },
    Dead {
        /// Beats in a row with one.
        steady: u32,
    },
}

impl Detector {
    /// A sign of life has come.
    pub(super) fn hear(&mut self) {
        self.heard = true;
    }

    /// A beat is over.
    pub(super) fn beat(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        self.state = match (self.state, heard) {
            (State::Unknown, false) => State::Unknown,
            (State::Unknown | State::Alive { .. }, true) => State::Alive { silent: 0 },
            (State::Alive { silent }, false) if silent + 1 < DEAD_AFTER => {
                State::Alive { silent: silent + 1 }
            }
            (State::Alive { .. } | State::Dead { .. }, false) => State::Dead { steady: 0 },
            (State::Dead { steady }, true) if steady + 1 < ALIVE_AFTER => State::Dead { steady: steady + 1 },
            (State::Dead { .. }, true) => State::Alive { silent: 0 },
        };
    }

    /// For this beat nothing could be heard, whether it is alive or not: its sender or its listener was away.
    pub(super) fn skip(&mut self) {
        self.heard = false;
        if let State::Alive { silent } = &mut self.state {
            *silent = 0;
        }
    }

    /// Whether it is known to be dead.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, State::Dead { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets beats pass, "!" with a sign of life, "." without one, "-" skipped; marks where it died ("D") and came
    /// alive ("A").
    fn trace(detector: &mut Detector, beats: &str) -> String {
        let beat = |beat| {
            let before = detector.is_dead();
            match beat {
                '-' => detector.skip(),
                '!' => {
                    detector.hear();
                    detector.beat();
                }
                _ => detector.beat(),
            }
            match (before, detector.is_dead()) {
                (false, true) => 'D',
                (true, false) => 'A',
                _ => beat,
            }
        };
        beats.chars().map(beat).collect()
    }

    #[test]
    fn silence_kills_and_a_steady_pulse_revives() {
        let cases = [
            ("....................", "...................."),
            ("!..........", "!.........D"),
            ("!.........!.........", "!.........!........."),
            ("!..........!!!!!", "!.........D!!!!A"),
            ("!..........!!!!.!!!!!", "!.........D!!!!.!!!!A"),
            ("!.....-.....-.........", "!.....-.....-........."),
            ("!.....-..........", "!.....-.........D"),
            ("!..........-----!!!!!", "!.........D-----!!!!A"),
        ];
        for (beats, expected) in cases {
            let mut detector = Detector::default();
            assert_eq!(trace(&mut detector, beats), expected);
        }
    }

    #[test]
    fn what_was_lost_now_and_then_was_never_dead() {
        let mut detector = Detector::default();
        let beats = "!.!!...!.!.....!!.!...!.......!".repeat(50);
        assert_eq!(trace(&mut detector, &beats), beats);
        assert!(!detector.is_dead());
    }
}
