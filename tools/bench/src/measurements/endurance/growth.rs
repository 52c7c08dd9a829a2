//! Distinguishes figures that grow from figures that fluctuate.

use serde::Serialize;

/// A slope counts as growth only above this many standard errors.
const ERRORS: f64 = 4.0;
/// The least rise that counts, relative to the median. A smaller rise would take days to matter.
const SHARE: f64 = 0.02;
/// The fewest samples that make a meaningful line.
const FEWEST: usize = 5;

/// A figure, with the time at which it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct UsageSample {
    pub(super) hours: f64,
    pub(super) figure: f64,
}

/// A line fitted to samples, and the verdict on its growth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Growth {
    pub(super) median: f64,
    /// The slope of the line, by least squares.
    pub(super) per_hour: f64,
    /// The slope's standard error.
    pub(super) error: f64,
    /// True if the line rises significantly, and by enough to matter.
    pub(super) grows: bool,
}

impl Growth {
    /// Fits a line; returns `None` if there are too few samples.
    ///
    /// A total rise up to `granule` does not count as growth.
    pub(super) fn of(samples: &[UsageSample], granule: f64) -> Option<Self> {
        if samples.len() < FEWEST {
            return None;
        }
        let count = samples.len() as f64;
        let mean = |of: fn(&UsageSample) -> f64| samples.iter().map(of).sum::<f64>() / count;
        let (hours, figure) = (mean(|sample| sample.hours), mean(|sample| sample.figure));
        let spread: f64 = samples.iter().map(|sample| (sample.hours - hours).powi(2)).sum();
        let product = |sample: &UsageSample| (sample.hours - hours) * (sample.figure - figure);
        let per_hour = samples.iter().map(product).sum::<f64>() / spread;
        let off = |sample: &UsageSample| sample.figure - figure - per_hour * (sample.hours - hours);
        let scatter = samples.iter().map(|sample| off(sample).powi(2)).sum::<f64>() / (count - 2.0);
        let error = (scatter / spread).sqrt();
        let mut sorted: Vec<_> = samples.iter().map(|sample| sample.figure).collect();
        sorted.sort_by(f64::total_cmp);
        let median = *sorted.get(sorted.len() / 2)?;
        let span = samples.last()?.hours - samples.first()?.hours;
        let grows = per_hour > ERRORS * error && per_hour * span > (SHARE * median).max(granule);
        Some(Self { median, per_hour, error, grows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grows(figure: impl Fn(u32) -> f64) -> bool {
        let sample = |turn| UsageSample { hours: f64::from(turn) / 100.0, figure: figure(turn) };
        Growth::of(&(0..100).map(sample).collect::<Vec<_>>(), 2.0).unwrap().grows
    }

    /// Returns noise from -1 to 1, which is the same in each run.
    fn noise(turn: u32) -> f64 {
        f64::from(turn.wrapping_mul(2_654_435_761) >> 16) / f64::from(1 << 15) - 1.0
    }

    #[test]
    fn a_leak_is_found_below_noise() {
        assert!(grows(|turn| 1000.0 + f64::from(turn)));
        assert!(grows(|turn| 1000.0 + f64::from(turn) + 30.0 * noise(turn)));
    }

    #[test]
    fn what_goes_up_and_down_does_not_grow() {
        assert!(!grows(|_| 1000.0));
        assert!(!grows(|turn| 1000.0 + 100.0 * noise(turn)));
        assert!(!grows(|turn| 1000.0 + 50.0 * f64::from(turn % 10)));
        assert!(!grows(|turn| 1000.0 - f64::from(turn)));
    }

    #[test]
    fn too_little_does_not_count() {
        assert!(!grows(|turn| 1000.0 + f64::from(turn) / 10.0), "one in a hundred");
        assert!(!grows(|turn| 5.0 + f64::from(turn / 50)), "one in all");
    }

    #[test]
    fn a_line_needs_samples() {
        assert_eq!(Growth::of(&[UsageSample { hours: 0.0, figure: 1.0 }; 4], 1.0), None);
    }
}
