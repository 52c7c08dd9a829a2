//! Weights in the fabric's format.

use crate::policy::{WeightedGradient, Worker};

/// The largest weight of a contribution. The bits of the sum of all weights reduce the fabric's 30 bits
/// for a value.
pub(super) const MOST: u64 = 256;

/// Scales weights so that they are at most [`MOST`]. Weights that are small enough stay unchanged;
/// otherwise w = max(1, round(`MOST` · w / max w)). Rounding changes a weight by at most half a unit.
/// So a share changes by less than 0.4 % of the largest share.
pub(super) fn scale(parts: &[WeightedGradient]) -> Vec<WeightedGradient> {
    let most = parts.iter().map(|part| part.weight).max().unwrap_or(0);
    if most <= MOST {
        return parts.to_vec();
    }
    let scaled = |weight: u64| {
        let (weight, most) = (u128::from(weight), u128::from(most));
        u64::try_from((u128::from(MOST) * weight + most / 2) / most).unwrap_or(MOST).max(1)
    };
    parts.iter().map(|part| WeightedGradient { weight: scaled(part.weight), ..*part }).collect()
}

/// Returns the weight that a worker is granted in a round; `None` if a packet cannot carry it.
pub(super) fn grant(part: &WeightedGradient) -> Option<(Worker, u32)> {
    Some((part.worker, u32::try_from(part.weight).ok().filter(|weight| *weight > 0)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn scaled_weights_keep_the_shares(weights in prop::collection::vec(1u64..1 << 40, 1..20)) {
            let part = |(worker, &weight): (usize, &u64)| WeightedGradient { worker: worker as Worker, weight };
            let parts: Vec<WeightedGradient> = weights.iter().enumerate().map(part).collect();
            let scaled = scale(&parts);
            let most = *weights.iter().max().unwrap() as f64;
            prop_assert!(scaled.iter().all(|part| (1..=MOST).contains(&part.weight)));
            if most <= MOST as f64 {
                prop_assert_eq!(&scaled, &parts);
            } else {
                for (part, scaled) in parts.iter().zip(&scaled) {
                    let off = part.weight as f64 / most - scaled.weight as f64 / MOST as f64;
                    prop_assert!(off.abs() <= 1.0 / MOST as f64);
                }
            }
        }
    }
}
