//! Detects the failure of a part that should send signs of life regularly.
//! The detector is a state machine with hysteresis.

/// Number of ticks without a sign of life after which a part is dead.
/// Ten probes in a row are not lost by chance, and a busy machine does not delay its processes for ten ticks.
const DEAD_AFTER: u32 = 10;
/// Number by which ticks with a sign of life must exceed ticks without one before a dead part is alive
/// again.
/// A cable with a loose contact never reaches this number. The cable of a busy machine, which loses few probes, does.
const ALIVE_AFTER: u32 = 5;
/// Maximum number of silent ticks that become certain in one tick after the reporters are reachable
/// again.
/// It is limited because the reporters' late reports may still be in transit.
const BELIEVED_AT_ONCE: u32 = 3;

/// Judges a part by its signs of life.
/// Time is counted in ticks, not in seconds. A delayed clock therefore does not make a part dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detector {
    state: PartState,
    heard: bool,
    /// Number of ticks without a sign of life after which the part is dead.
    dead_after: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    /// No sign of life has arrived yet. The part may be unable to send any, so it does not count as silent.
    Unknown {
        /// Number of ticks that certainly had no sign of life.
        certain: u32,
    },
    Alive {
        /// Number of ticks since the last sign of life.
        silent: u32,
        /// Number of these ticks that certainly had no sign of life.
        certain: u32,
    },
    Dead {
        /// Number of ticks with a sign of life minus number of ticks without one.
        steady: u32,
    },
}

impl PartState {
    const ALIVE: Self = Self::Alive { silent: 0, certain: 0 };
}

impl Detector {
    /// Creates a detector in the unknown state.
    /// Signs of life may be up to `late` ticks late, because other frames are queued before them.
    pub(super) fn new(late: u32) -> Self {
        let dead_after = DEAD_AFTER.saturating_add(late);
        Self { state: PartState::Unknown { certain: 0 }, heard: false, dead_after }
    }

    /// Notes a sign of life.
    pub(super) fn hear(&mut self) {
        self.heard = true;
    }

    /// Ends a tick. `audible` is true if the reporters of signs of life were reachable.
    pub(super) fn tick(&mut self, audible: bool) {
        let heard = std::mem::take(&mut self.heard);
        self.state = match (self.state, heard) {
            (PartState::Unknown { certain }, false) if audible && certain + 1 >= self.dead_after => {
                PartState::Dead { steady: 0 }
            }
            (PartState::Unknown { certain }, false) => {
                PartState::Unknown { certain: certain + u32::from(audible) }
            }
            (PartState::Unknown { .. } | PartState::Alive { .. }, true) => PartState::ALIVE,
            (PartState::Alive { silent, certain }, false) => {
                let silent = silent.saturating_add(1);
                let certain = if audible { silent.min(certain + BELIEVED_AT_ONCE) } else { certain };
                match certain < self.dead_after {
                    true => PartState::Alive { silent, certain },
                    false => PartState::Dead { steady: 0 },
                }
            }
            (PartState::Dead { steady }, false) if audible => {
                PartState::Dead { steady: steady.saturating_sub(1) }
            }
            (PartState::Dead { .. }, false) => self.state,
            (PartState::Dead { steady }, true) if steady + 1 < ALIVE_AFTER => {
                PartState::Dead { steady: steady + 1 }
            }
            (PartState::Dead { .. }, true) => PartState::ALIVE,
        };
    }

    /// Ends a tick in which no sign of life was possible, because the sender or the receiver was known to
    /// be unreachable.
    pub(super) fn skip(&mut self) {
        self.heard = false;
        match &mut self.state {
            PartState::Unknown { certain } => *certain = 0,
            PartState::Alive { silent, certain } => (*silent, *certain) = (0, 0),
            PartState::Dead { .. } => {}
        }
    }

    /// Returns true if the part is known to be dead.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.state, PartState::Dead { .. })
    }

    /// Returns true if a sign of life has arrived recently.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.state, PartState::Alive { silent, .. } if silent < self.dead_after)
    }

    /// Returns true if the part has been silent for as long as a dead part, but the silence is not certain.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.state, PartState::Alive { silent, .. } if silent >= self.dead_after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs ticks and returns their trace.
    /// In `ticks`, "!" has a sign of life, "." certainly has none, "?" has none but the reporters were unreachable, and
    /// "-" is skipped. The trace marks the ticks at which the part became silent ("S"), dead ("D") and alive ("A").
    fn trace(detector: &mut Detector, ticks: &str) -> String {
        let tick = |tick| {
            let before = (detector.is_silent(), detector.is_dead());
            match tick {
                '-' => detector.skip(),
                '!' => {
                    detector.hear();
                    detector.tick(true);
                }
                tick => detector.tick(tick == '.'),
            }
            match (before, (detector.is_silent(), detector.is_dead())) {
                ((_, false), (_, true)) => 'D',
                ((_, true), (_, false)) => 'A',
                ((false, _), (true, _)) => 'S',
                _ => tick,
            }
        };
        ticks.chars().map(tick).collect()
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
        for (ticks, expected) in cases {
            let mut detector = Detector::new(0);
            assert_eq!(trace(&mut detector, ticks), expected);
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
            // The reporters are reachable again, and no sign of life arrives. The part becomes dead a few ticks later.
            ("!???????????????....", "!?????????S?????...D"),
            ("!???????????????..!", "!?????????S?????..!"),
            // The part becomes dead even if only some ticks are certain.
            ("!.?.?.?.?.?", "!.?.?.?.?.S"),
            ("!.?.?.?.?.?.", "!.?.?.?.?.SD"),
        ];
        for (ticks, expected) in cases {
            let mut detector = Detector::new(0);
            assert_eq!(trace(&mut detector, ticks), expected, "{ticks}");
        }
    }

    #[test]
    fn what_was_lost_now_and_then_was_never_dead() {
        let mut detector = Detector::new(0);
        let ticks = "!.!!...!.!.....!!.!...!.......!".repeat(50);
        assert_eq!(trace(&mut detector, &ticks), ticks);
        assert!(!detector.is_dead());
    }
}
