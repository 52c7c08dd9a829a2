//! What comes back of what was encoded.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use proptest::prelude::*;
use support::{ALL, codec, encode, error, gradients, long_tailed};
use tributary_codec::{
    Buckets, Casq, Codec, EncodeError, ErrorFeedback, Kind, Shared, TernGrad, Uniform, decode,
};

fn there_and_back(name: &str, gradient: &[f32]) -> Vec<f32> {
    decode(&encode(name, gradient), gradient.len()).unwrap()
}

/// The least and the largest of some values.
fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

proptest! {
    #[test]
    fn every_code_decodes_to_as_many_finite_values(gradient in gradients()) {
        for name in ALL {
            let decoded = there_and_back(name, &gradient);
            prop_assert_eq!(decoded.len(), gradient.len());
            prop_assert!(decoded.iter().all(|value| value.is_finite()), "{}", name);
        }
    }

    #[test]
    fn none_keeps_every_bit(gradient in gradients()) {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&there_and_back("none", &gradient)), bits(&gradient));
    }

    #[test]
    fn f16_keeps_eleven_bits(gradient in gradients()) {
        let largest = gradient.iter().fold(0.0_f64, |most, value| most.max(f64::from(value.abs())));
        for (value, decoded) in gradient.iter().zip(there_and_back("f16", &gradient)) {
            let off = (f64::from(*value) - f64::from(decoded)).abs();
            let most = (f64::from(value.abs()) * 2f64.powi(-11)).max(largest * 2f64.powi(-39));
            prop_assert!(off <= most.max(f64::from(f32::MIN_POSITIVE)), "{value} became {decoded}");
        }
    }

    #[test]
    fn uniform_is_off_by_half_a_cell_at_most(gradient in gradients(), bits in 1u8..=8) {
        let (low, high) = range(&gradient);
        let half = (f64::from(high) - f64::from(low)) / f64::from(2_u32 << bits);
        let code = Uniform::new(bits).encode(&gradient).unwrap();
        for (value, decoded) in gradient.iter().zip(decode(&code, gradient.len()).unwrap()) {
            let off = (f64::from(*value) - f64::from(decoded)).abs();
            // Besides, the decoded value was rounded to f32.
            prop_assert!(off <= half * 1.001 + f64::from(decoded.abs()) * 1e-7 + 1e-44, "{value}: {decoded}");
        }
    }

    #[test]
    fn casq_stays_within_the_range_of_the_values(gradient in gradients(), clusters in 1u8..=8) {
        let (low, high) = range(&gradient);
        for buckets in [Buckets::InProportion, Buckets::OnePerCluster] {
            let code = Casq::new(clusters, buckets, 3).encode(&gradient).unwrap();
            let decoded = decode(&code, gradient.len()).unwrap();
            prop_assert!(decoded.iter().all(|value| (low..=high).contains(value)));
        }
    }
}

#[test]
fn the_largest_values_come_back_finite() {
    for name in ALL {
        let decoded = there_and_back(name, &[f32::MAX, 1.0, -f32::MAX]);
        assert!(decoded.iter().all(|value| value.is_finite()), "{name}: {decoded:?}");
    }
    let [largest, ..] = there_and_back("f16", &[f32::MAX])[..] else { panic!("no value") };
    assert!(f32::MAX - largest <= f32::MAX / 2048.0, "{largest}");
}

#[test]
fn gradients_of_few_different_values_survive_casq_as_they_are() {
    let gradient: Vec<f32> = (0..1000).map(|at| [-3.5, 0.0, 0.25, 1e-9][at * at % 4]).collect();
    for codec in [Casq::new(4, Buckets::InProportion, 0), Casq::new(8, Buckets::OnePerCluster, 0)] {
        let code = codec.clone().encode(&gradient).unwrap();
        assert_eq!(decode(&code, 1000).unwrap(), gradient);
    }
}

#[test]
fn clusters_serve_long_tails_better_than_even_levels() {
    let gradient = long_tailed(100_000);
    let of = |name| error(&gradient, &there_and_back(name, &gradient));
    assert!(of("casq-4") < of("uniform-2") / 2.0);
    assert!(of("casq-4") < of("casq-4-shared"));
    assert!(of("casq-8") < of("casq-4"));
    assert!(of("uniform-8") < of("uniform-2"));
}

#[test]
fn a_code_of_four_clusters_is_thirteen_times_smaller_from_100000_values() {
    for len in [100_000, 5_000_000] {
        let gradient = long_tailed(len);
        for name in ["casq-4", "casq-4-shared"] {
            assert!(encode(name, &gradient).len() * 13 <= len * 4, "{name} of {len} values");
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_code_on_any_number_of_cores() {
    let gradient = long_tailed(200_000);
    for name in ALL {
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(alone.install(|| encode(name, &gradient)), encode(name, &gradient), "{name}");
    }
}

#[test]
fn terngrad_is_right_on_average() {
    let gradient: Vec<f32> = (0..64).map(|at| (at as f32 * 0.3).sin()).collect();
    let mut codec = TernGrad::new(5);
    let mut sum = vec![0.0_f64; gradient.len()];
    const ROUNDS: u32 = 4000;
    for _ in 0..ROUNDS {
        let decoded = decode(&codec.encode(&gradient).unwrap(), gradient.len()).unwrap();
        sum.iter_mut().zip(decoded).for_each(|(sum, value)| *sum += f64::from(value));
    }
    for (sum, value) in sum.iter().zip(&gradient) {
        assert!((sum / f64::from(ROUNDS) - f64::from(*value)).abs() < 0.05, "{value}: {sum}");
    }
}

#[test]
fn with_error_feedback_what_is_left_out_comes_later() {
    let gradient = long_tailed(5000);
    let rounds = 50;
    let sent = |codec: &mut dyn Codec| {
        let mut sum = vec![0.0; gradient.len()];
        for _ in 0..rounds {
            let decoded = decode(&codec.encode(&gradient).unwrap(), gradient.len()).unwrap();
            sum.iter_mut().zip(decoded).for_each(|(sum, value)| *sum += value / rounds as f32);
        }
        error(&gradient, &sum)
    };
    let casq = Casq::new(4, Buckets::InProportion, 1);
    let (without, with) = (sent(&mut casq.clone()), sent(&mut ErrorFeedback::new(casq)));
    assert!(with < without / 20.0, "{with} with feedback, {without} without");
}

#[test]
fn what_is_not_finite_is_named_and_changes_nothing() {
    let good = long_tailed(70_000);
    for name in ALL {
        let mut codec = codec(name, &good);
        for (position, value) in [(0, f32::NAN), (69_999, f32::INFINITY), (40_000, f32::NEG_INFINITY)] {
            let mut bad = good.clone();
            bad[position] = value;
            bad[69_999] = f32::INFINITY;
            let refused = codec.encode(&bad).unwrap_err();
            let EncodeError::NotFinite { position: found, value: what } = refused else {
                panic!("{refused}")
            };
            assert_eq!((found, what.to_bits()), (position, bad[position].to_bits()), "{name}");
        }
        assert_eq!(codec.encode(&good).unwrap(), encode(name, &good), "{name}");
    }
}

#[test]
fn without_an_agreement_nothing_is_shared() {
    assert_eq!(Shared::new(1).encode(&[1.0]), Err(EncodeError::NoCodebook));
    assert!("casq-4-shared".parse::<Kind>().unwrap().needs_agreement());
}

#[test]
fn names_are_read_as_they_are_written() {
    for name in ALL {
        let kind: Kind = name.parse().unwrap();
        assert_eq!((kind.to_string().as_str(), kind.codec(0).kind()), (name, kind));
    }
    for name in ["", "casq", "casq-5", "uniform-0", "uniform-9", "uniform-x", "NONE"] {
        let refused = name.parse::<Kind>().unwrap_err().to_string();
        assert!(refused.contains(name) && refused.contains("casq-4"), "{refused}");
    }
}
