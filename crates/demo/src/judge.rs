//! Compares the fabric's results with sums that are computed here in double precision.

use tributary_wire::SliceWidth;

/// The result of the comparison over all completed rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    /// True if every worker got the same bits in every round.
    pub(crate) identical: bool,
    /// The largest |result − double-precision sum| over all values, divided by the largest input magnitude
    /// in the value's slice.
    pub(crate) max_relative_error: f64,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { identical: true, max_relative_error: 0.0 }
    }
}

/// One worker's contribution to a round, and the result it received.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) gradient: Vec<f32>,
    pub(crate) sum: Vec<f32>,
}

impl Verdict {
    /// Adds the exchanges of all workers in one round.
    pub(crate) fn add_round(&mut self, width: SliceWidth, round: &[Exchange]) {
        let Some(first) = round.first() else { return };
        self.identical &= round.iter().all(|exchange| same_bits(&exchange.sum, &first.sum));
        for (slice, result) in first.sum.chunks(width.values()).enumerate() {
            let start = slice * width.values();
            let inputs: Vec<&[f32]> = round
                .iter()
                .filter_map(|exchange| exchange.gradient.get(start..start + result.len()))
                .collect();
            self.max_relative_error = self.max_relative_error.max(relative_error(&inputs, result));
        }
    }
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Returns the largest error in one slice, divided by the slice's largest input magnitude. Returns 0 if
/// inputs and result are all zero.
fn relative_error(inputs: &[&[f32]], result: &[f32]) -> f64 {
    let largest =
        inputs.iter().flat_map(|input| input.iter()).fold(0.0_f64, |m, &x| m.max(f64::from(x).abs()));
    let error = result
        .iter()
        .enumerate()
        .map(|(i, &got)| {
            let sum: f64 = inputs.iter().map(|input| f64::from(input[i])).sum();
            let error = (f64::from(got) - sum).abs();
            if error.is_nan() { f64::INFINITY } else { error }
        })
        .fold(0.0, f64::max);
    if error == 0.0 { 0.0 } else { error / largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(sums: [&[f32]; 2]) -> Vec<Exchange> {
        let gradients = [vec![1.0, -2.0], vec![3.0, 0.5]];
        gradients
            .into_iter()
            .zip(sums)
            .map(|(gradient, sum)| Exchange { gradient, sum: sum.to_vec() })
            .collect()
    }

    #[test]
    fn a_right_sum_has_no_error() {
        let mut verdict = Verdict::default();
        verdict.add_round(SliceWidth::ETHERNET, &round([&[4.0, -1.5], &[4.0, -1.5]]));
        assert_eq!(verdict, Verdict::default());
    }

    #[test]
    fn an_error_is_relative_to_the_largest_input() {
        let mut verdict = Verdict::default();
        verdict.add_round(SliceWidth::ETHERNET, &round([&[4.0, -1.2], &[4.0, -1.2]]));
        assert!((verdict.max_relative_error - 0.1).abs() < 1e-6);
        assert!(verdict.identical);
    }

    #[test]
    fn one_different_bit_is_seen() {
        let mut verdict = Verdict::default();
        verdict.add_round(SliceWidth::ETHERNET, &round([&[4.0, 0.0], &[4.0, -0.0]]));
        assert!(!verdict.identical);
    }

    #[test]
    fn a_sum_of_zeros_that_is_not_zero_is_infinitely_wrong() {
        let zeros = |sum| Exchange { gradient: vec![0.0; 2], sum };
        let mut verdict = Verdict::default();
        verdict.add_round(SliceWidth::ETHERNET, &[zeros(vec![0.0; 2]), zeros(vec![0.0; 2])]);
        assert_eq!(verdict.max_relative_error, 0.0);
        verdict.add_round(SliceWidth::ETHERNET, &[zeros(vec![0.0, 1e-9]), zeros(vec![0.0, 1e-9])]);
        assert_eq!(verdict.max_relative_error, f64::INFINITY);
    }
}
