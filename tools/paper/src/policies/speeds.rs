//! Speeds of workers: the time that each worker takes for a gradient, and changes of this time.

/// A time of a study. The fastest worker needs a time of 100 for a gradient.
pub(crate) type Time = u64;
/// The fastest worker's step time.
pub(crate) const UNIT: Time = 100;

/// Step times of eight workers, in hundredths of the fastest worker's step time (`systems.md`).
const STEPS: [Time; 8] = [100, 100, 110, 120, 150, 200, 300, 400];
/// The time after which the speeds change to other workers: about ten steps of the slowest worker.
const TURN: Time = 40 * UNIT;

/// A pattern of slow workers over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speeds {
    /// The same workers are slow at all times.
    Lasting,
    /// The slow workers change: each worker gets every speed in turn.
    Changing,
    /// All workers are equally fast except for hiccups: one step in ten takes four times as long.
    Hiccups,
}

impl Speeds {
    /// The number of workers.
    pub(crate) const WORKERS: u16 = STEPS.len() as u16;

    /// Returns the time that a worker takes for its `step`th gradient, if it begins at `now`.
    pub(crate) fn step_time(self, worker: u16, step: u64, now: Time) -> Time {
        let turn = |by: u64| STEPS[((u64::from(worker) + by) % STEPS.len() as u64) as usize];
        match self {
            Self::Lasting => turn(0),
            // Three and eight have no common factor, so that each worker gets every speed. Two consecutive
            // speeds of a worker are not neighbours in the list.
            Self::Changing => turn(3 * (now / TURN)),
            Self::Hiccups if (7 * step + 3 * u64::from(worker)).is_multiple_of(10) => 4 * UNIT,
            Self::Hiccups => UNIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_any_time_every_speed_is_somebodys() {
        for now in [0, TURN, 5 * TURN + 17] {
            let mut all: Vec<_> =
                (0..Speeds::WORKERS).map(|w| Speeds::Changing.step_time(w, 0, now)).collect();
            all.sort_unstable();
            assert_eq!(all, STEPS);
        }
        assert_ne!(Speeds::Changing.step_time(0, 0, 0), Speeds::Changing.step_time(0, 0, TURN));
    }

    #[test]
    fn one_step_in_ten_is_a_hiccup() {
        for worker in 0..Speeds::WORKERS {
            let slow = (0..1000).filter(|&step| Speeds::Hiccups.step_time(worker, step, 0) > UNIT).count();
            assert_eq!(slow, 100);
        }
    }
}
