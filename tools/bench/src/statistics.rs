//! Statistics of repeated measurements: median and spread of one candidate, and the ratio of two.

use serde::{Deserialize, Serialize};
use statrs::statistics::{Data, Max, Min, OrderStatistics};

/// Five-number summary of a candidate's runs, in the unit of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of runs.
    pub runs: usize,
    /// The smallest value.
    pub min: f64,
    /// The first quartile.
    pub lower_quartile: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub upper_quartile: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Summarises runs, in any order.
    ///
    /// Quartiles that fall between two runs are interpolated by the median-unbiased estimate (definition 8 of
    /// Hyndman and Fan, 1996).
    ///
    /// # Errors
    /// [`StatisticsError::NoRuns`], [`StatisticsError::NotFinite`].
    pub fn of(runs: &[f64]) -> Result<Self, StatisticsError> {
        check(runs)?;
        let mut data = Data::new(runs.to_vec());
        Ok(Self {
            runs: runs.len(),
            min: data.min(),
            lower_quartile: data.lower_quartile(),
            median: data.median(),
            upper_quartile: data.upper_quartile(),
            max: data.max(),
        })
    }
}

/// The ratio of two candidates' figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The ratio of the two medians, which should be compared with a limit.
    pub of_medians: f64,
    /// The smallest ratio of two adjacent runs.
    pub min: f64,
    /// The largest ratio of two adjacent runs.
    pub max: f64,
}

impl Ratio {
    /// Computes the ratio of two candidates that took turns.
    ///
    /// Each run `ours[i]` was measured next to `others[i]`.
    ///
    /// # Errors
    /// [`StatisticsError::NotPaired`] if the candidates have different numbers of runs,
    /// [`StatisticsError::NotPositive`] if a value of `others` is zero or less, or an error of
    /// [`Summary::of`].
    pub fn of_pairs(ours: &[f64], others: &[f64]) -> Result<Self, StatisticsError> {
        if ours.len() != others.len() {
            return Err(StatisticsError::NotPaired { ours: ours.len(), others: others.len() });
        }
        let of_medians = Summary::of(ours)?.median / Summary::of(others)?.median;
        if let Some(&other) = others.iter().find(|other| **other <= 0.0) {
            return Err(StatisticsError::NotPositive(other));
        }
        let pairs: Vec<f64> = ours.iter().zip(others).map(|(own, other)| own / other).collect();
        let pairs = Summary::of(&pairs)?;
        Ok(Self { of_medians, min: pairs.min, max: pairs.max })
    }
}

/// The reason why statistics cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum StatisticsError {
    /// The list of runs is empty.
    #[error("there is no run to summarise: measure at least once")]
    NoRuns,
    /// A run is not a finite number.
    #[error("run {run} gave {value}, which is not a finite number")]
    NotFinite {
        /// The number of the run, from 1.
        run: usize,
        /// The value of the run.
        value: f64,
    },
    /// The candidates have different numbers of runs.
    #[error("{ours} runs cannot be compared in pairs with {others}: measure both equally often")]
    NotPaired {
        /// Number of the first candidate's runs.
        ours: usize,
        /// Number of the other candidate's runs.
        others: usize,
    },
    /// A run of the other candidate is not above zero.
    #[error("a run gave {0}: a ratio needs a value above zero")]
    NotPositive(f64),
}

fn check(runs: &[f64]) -> Result<(), StatisticsError> {
    if runs.is_empty() {
        return Err(StatisticsError::NoRuns);
    }
    match runs.iter().position(|run| !run.is_finite()) {
        Some(at) => Err(StatisticsError::NotFinite { run: at + 1, value: runs[at] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn five_runs_in_any_order_have_the_third_as_median() {
        let summary = Summary::of(&[30.0, 10.0, 50.0, 20.0, 40.0]).unwrap();
        assert_eq!((summary.runs, summary.min, summary.median, summary.max), (5, 10.0, 30.0, 50.0));
        assert!(summary.lower_quartile > 10.0 && summary.lower_quartile < 20.0, "{summary:?}");
        assert!(summary.upper_quartile > 40.0 && summary.upper_quartile < 50.0, "{summary:?}");
    }

    #[test]
    fn a_single_run_is_its_own_summary() {
        let summary = Summary::of(&[7.0]).unwrap();
        let Summary { runs, min, lower_quartile, median, upper_quartile, max } = summary;
        assert_eq!(runs, 1);
        assert_eq!([min, lower_quartile, median, upper_quartile, max], [7.0; 5]);
    }

    #[test]
    fn a_ratio_pairs_the_runs_by_their_turn() {
        let ratio = Ratio::of_pairs(&[10.0, 30.0, 20.0], &[5.0, 10.0, 4.0]).unwrap();
        assert_eq!(ratio, Ratio { of_medians: 4.0, min: 2.0, max: 5.0 });
    }

    #[test]
    fn runs_that_say_nothing_are_refused() {
        assert_eq!(Summary::of(&[]), Err(StatisticsError::NoRuns));
        let refused = Summary::of(&[1.0, f64::INFINITY]);
        assert_eq!(refused, Err(StatisticsError::NotFinite { run: 2, value: f64::INFINITY }));
        let unequal = Ratio::of_pairs(&[1.0], &[1.0, 2.0]);
        assert_eq!(unequal, Err(StatisticsError::NotPaired { ours: 1, others: 2 }));
        assert_eq!(Ratio::of_pairs(&[1.0], &[0.0]), Err(StatisticsError::NotPositive(0.0)));
    }

    proptest! {
        #[test]
        fn the_five_numbers_are_in_order_and_within_the_runs(runs in vec(0.0f64..1e9, 1..40)) {
            let summary = Summary::of(&runs).unwrap();
            let Summary { min, lower_quartile, median, upper_quartile, max, .. } = summary;
            prop_assert!(runs.contains(&min) && runs.contains(&max));
            prop_assert!(min <= lower_quartile && lower_quartile <= median);
            prop_assert!(median <= upper_quartile && upper_quartile <= max);
        }
    }
}
