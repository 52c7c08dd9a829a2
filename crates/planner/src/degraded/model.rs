/// The time of a process for a step: α + β · b for b samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// α, the seconds of a step that do not depend on the number of samples.
    pub alpha: f64,
    /// β, the seconds for each sample.
    pub beta: f64,
}

/// A measured time of steps of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) samples: f64,
    pub(super) seconds: f64,
    /// The weight of the point in the fit.
    pub(super) weight: f64,
}

/// The minimum spread of batch sizes, relative to their mean, for a fit of α.
/// Below it, the noise of the times is larger than the effect of α.
const LEAST_SPREAD: f64 = 0.1;

impl Model {
    /// Returns the seconds for a step of `samples` samples.
    pub fn at(self, samples: f64) -> f64 {
        self.alpha + self.beta * samples
    }

    /// Makes the model of a process whose time is proportional to its samples.
    fn proportional(samples: f64, seconds: f64) -> Self {
        Self { alpha: 0.0, beta: seconds / samples }
    }

    /// Fits a line through the points by least squares; `None` without points.
    /// All points must have more than 0 samples.
    /// If the sizes of all points are equal or nearly equal, α = 0.
    ///
    /// If the line is impossible (α or β below 0), something other than the size has changed between the points. Then
    /// the fit uses only the first point.
    pub(super) fn fit(points: &[Point]) -> Option<Self> {
        let first = points.first()?;
        let sum = |of: fn(&Point) -> f64| points.iter().map(|point| point.weight * of(point)).sum::<f64>();
        let all = sum(|_| 1.0);
        let (samples, seconds) = (sum(|point| point.samples) / all, sum(|point| point.seconds) / all);
        let sizes = || points.iter().map(|point| point.samples);
        let spread = sizes().fold(f64::MIN, f64::max) - sizes().fold(f64::MAX, f64::min);
        if spread < LEAST_SPREAD * samples {
            return Some(Self::proportional(samples, seconds));
        }
        let beta = (sum(|point| point.samples * point.seconds) / all - samples * seconds)
            / (sum(|point| point.samples * point.samples) / all - samples * samples);
        let line = Self { alpha: seconds - beta * samples, beta };
        let possible = line.alpha >= 0.0 && line.beta >= 0.0;
        Some(if possible { line } else { Self::proportional(first.samples, first.seconds) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(samples: f64, seconds: f64) -> Point {
        Point { samples, seconds, weight: 1.0 }
    }

    #[test]
    fn with_one_size_all_of_the_time_is_the_samples() {
        let model = Model::fit(&[point(16.0, 0.4)]).unwrap();
        assert_eq!(model, Model { alpha: 0.0, beta: 0.025 });
        // The sizes 18 and 19 differ too little, compared with the noise of their times.
        let nearly = Model::fit(&[point(18.0, 0.5), point(19.0, 0.4)]).unwrap();
        assert_eq!(nearly.alpha, 0.0);
        assert_eq!(Model::fit(&[]), None);
    }

    #[test]
    fn a_line_that_cannot_be_is_not_believed() {
        let slower_with_less = [point(20.0, 0.2), point(10.0, 0.8)];
        assert_eq!(Model::fit(&slower_with_less), Some(Model { alpha: 0.0, beta: 0.01 }));
        let below_nothing = [point(20.0, 0.9), point(10.0, 0.1)];
        assert_eq!(Model::fit(&below_nothing), Some(Model { alpha: 0.0, beta: 0.045 }));
    }

    proptest! {
        #[test]
        fn a_line_is_found_again(
            alpha in 0.0..1.0f64, beta in 1e-4..0.1f64, sizes in (1u32..200, 1u32..200), weights in (0.1..1.0f64, 0.1..1.0f64),
        ) {
            let (small, large) = (f64::from(sizes.0), f64::from(sizes.0 + sizes.1));
            let truth = Model { alpha, beta };
            let point = |samples, weight| Point { samples, seconds: truth.at(samples), weight };
            let found = Model::fit(&[point(small, weights.0), point(large, weights.1)]).unwrap();
            if large - small > 0.2 * large {
                prop_assert!((found.at(57.0) - truth.at(57.0)).abs() < 1e-6 * truth.at(57.0), "{found:?}");
            }
            prop_assert!(found.alpha >= 0.0 && found.beta >= 0.0);
        }
    }
}
