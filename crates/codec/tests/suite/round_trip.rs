//! Tests of values that are decoded from encoded gradients.

use proptest::prelude::*;
use tributary_codec::{
    Buckets, Casq, Codec, EncodeError, ErrorFeedback, Kind, Lossy, Quantile, Shared, TernGrad, TopK,
    Uncompressed, Uniform, decode,
};

use crate::support::{ALL, codec, encode, error, gradients, long_tailed};

fn there_and_back(name: &str, gradient: &[f32]) -> Vec<f32> {
    decode(&encode(name, gradient), gradient.len()).unwrap()
}

/// Returns the smallest and the largest of the values.
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
            // In addition, the decoded value was rounded to f32.
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

    #[test]
    fn one_bit_keeps_the_sign_and_its_mean(gradient in gradients()) {
        let decoded = there_and_back("one-bit", &gradient);
        for negative in [false, true] {
            let of_sign = gradient.iter().zip(&decoded).filter(|(value, _)| (**value < 0.0) == negative);
            let (values, decoded): (Vec<f64>, Vec<f32>) = of_sign.map(|(a, b)| (f64::from(*a), *b)).unzip();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            for value in decoded {
                let off = (f64::from(value) - mean).abs();
                prop_assert!(off <= mean.abs() * 1e-6 + 1e-44, "{} for {}", value, mean);
            }
        }
    }

    #[test]
    fn top_sends_the_largest_as_they_are_and_nothing_else(gradient in gradients(), one_in in 2u16..) {
        let code = TopK::new(one_in).encode(&gradient).unwrap();
        let decoded = decode(&code, gradient.len()).unwrap();
        let count = gradient.len().div_ceil(one_in.into());
        let mut magnitudes: Vec<f32> = gradient.iter().map(|value| value.abs()).collect();
        magnitudes.sort_by(|a, b| b.total_cmp(a));
        let least = count.checked_sub(1).map_or(f32::INFINITY, |last| magnitudes[last]);
        let mut sent = 0;
        for (value, decoded) in gradient.iter().zip(&decoded) {
            let is_sent = value.to_bits() == decoded.to_bits();
            prop_assert!(is_sent || *decoded == 0.0, "{} became {}", value, decoded);
            let right = if is_sent { value.abs() >= least || *value == 0.0 } else { value.abs() <= least };
            prop_assert!(right, "{} became {}, where the least is {}", value, decoded, least);
            sent += usize::from(is_sent && *value != 0.0);
        }
        prop_assert!(sent == count || (sent < count && least == 0.0), "{} of {}", sent, count);
    }

    #[test]
    fn quantile_has_the_mean_of_each_bucket(gradient in gradients(), bits in 1u32..=8) {
        let code = Quantile::new(1 << bits, 3).encode(&gradient).unwrap();
        let decoded = decode(&code, gradient.len()).unwrap();
        let mut pairs: Vec<(f32, f32)> = gradient.iter().copied().zip(decoded).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Buckets are intervals, each around its mean.
        let buckets: Vec<&[(f32, f32)]> = pairs.chunk_by(|a, b| a.1 == b.1).collect();
        prop_assert!(buckets.len() <= 1 << bits);
        for bucket in buckets {
            let (low, high) = (bucket[0].0, bucket[bucket.len() - 1].0);
            let mean = bucket.iter().map(|pair| f64::from(pair.0)).sum::<f64>() / bucket.len() as f64;
            let decoded = bucket[0].1;
            prop_assert!(low <= decoded && decoded <= high, "{} of {} to {}", decoded, low, high);
            let most = f64::from(low.abs().max(high.abs()));
            prop_assert!((f64::from(decoded) - mean).abs() <= most * 1e-6 + 1e-44, "{} for {}", decoded, mean);
        }
    }

    #[test]
    fn every_kind_is_read_as_it_is_written(kind in kinds(), seed in any::<u64>()) {
        prop_assert_eq!(kind.to_string().parse(), Ok(kind));
        prop_assert_eq!(kind.codec(seed).kind(), kind);
        let fed_back = kind.with_feedback();
        prop_assert_eq!(fed_back.to_string().parse(), Ok(fed_back));
        prop_assert_eq!(ErrorFeedback::new(kind.codec(seed)).kind(), fed_back);
        // Only kinds with feedback have a residual.
        let owes = matches!(kind, Kind::Lossy { feedback: true, .. });
        prop_assert_eq!(kind.codec(seed).residual().is_some(), owes);
    }

    #[test]
    fn a_name_that_is_read_is_the_only_one(name in "[a-z0-9+-]{0,4}|(uniform|top|quantile|casq)-[+0-9]{1,6}(-ef)?") {
        if let Ok(kind) = name.parse::<Kind>() {
            prop_assert_eq!(kind.to_string(), name);
        }
    }
}

/// Generates every kind that has a name.
fn kinds() -> impl Strategy<Value = Kind> {
    let lossy = prop_oneof![
        Just(Lossy::F16),
        (1u8..=8).prop_map(|bits| Lossy::Uniform { bits }),
        Just(Lossy::TernGrad),
        Just(Lossy::OneBit),
        (2u16..).prop_map(|one_in| Lossy::TopK { one_in }),
        (1u32..=8).prop_map(|bits| Lossy::Quantile { buckets: 1 << bits }),
        prop::sample::select(vec![4u8, 8]).prop_map(|clusters| Lossy::Casq { clusters }),
    ];
    let lossy = (lossy, any::<bool>()).prop_map(|(codec, feedback)| Kind::Lossy { codec, feedback });
    prop_oneof![1 => Just(Kind::None), 1 => Just(Kind::Shared), 8 => lossy]
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
    // These codecs have at most as many bits as `casq-4`. None of them loses the whole gradient.
    for name in ["quantile-4", "one-bit", "top-100"] {
        assert!(of("casq-4") < of(name) && of(name) < 1.0, "{name}: {}", of(name));
    }
    assert!(of("quantile-256") < of("quantile-16") && of("quantile-16") < of("quantile-4"));
}

#[test]
fn codes_are_as_long_as_is_said() {
    // The sizes are rounded up, with a small margin for headers and tables.
    let bits = [("one-bit", 1.0), ("quantile-4", 2.0), ("quantile-16", 4.0), ("quantile-256", 8.0)];
    let sparse = [("top-100", 0.41), ("top-1000", 0.045), ("top-2", 18.0)];
    for len in [100_000, 1_000_000] {
        let gradient = long_tailed(len);
        for (name, bits) in bits.into_iter().chain(sparse) {
            let most = bits * len as f64 / 8.0 + 1050.0;
            let got = encode(name, &gradient).len();
            assert!(got as f64 <= most, "{name} of {len} values: {got} bytes");
        }
    }
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
    for name in ["uniform-2", "one-bit", "top-10", "quantile-4", "quantile-16", "casq-4", "casq-8"] {
        let fed_back = format!("{name}-ef");
        let (without, with) = (sent(&mut *codec(name, &[])), sent(&mut *codec(&fed_back, &[])));
        assert!(with < without / 20.0, "{name}: {with} with feedback, {without} without");
    }
}

#[test]
fn what_a_code_leaves_out_is_owed() {
    let gradients = [long_tailed(3000), vec![-0.5; 3000], long_tailed(3000)];
    for name in ALL.into_iter().filter(|name| name.ends_with("-ef")) {
        let mut codec = codec(name, &[]);
        let mut total = vec![0.0_f64; 3000];
        for gradient in &gradients {
            let decoded = decode(&codec.encode(gradient).unwrap(), 3000).unwrap();
            let values = gradient.iter().zip(&decoded);
            total.iter_mut().zip(values).for_each(|(total, (value, sent))| *total += f64::from(value - sent));
            let owed = codec.residual().unwrap().owed();
            let off = total.iter().zip(owed).map(|(total, owed)| (total - f64::from(*owed)).abs());
            assert!(off.fold(0.0, f64::max) < 1e-5, "{name}");
        }
    }
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
    let numbers =
        ["casq-5", "uniform-0", "uniform-9", "uniform-x", "uniform-+8", "top-1", "top-0100", "top-65536"];
    let buckets = ["quantile-1", "quantile-12", "quantile-512"];
    let others = ["", "casq", "-ef", "none-ef", "casq-4-shared-ef", "top-100-ef-ef", "one-bit-", "NONE"];
    for name in numbers.into_iter().chain(buckets).chain(others) {
        let refused = name.parse::<Kind>().unwrap_err().to_string();
        assert!(refused.contains(&format!("{name:?}")) && refused.contains("casq-4"), "{refused}");
    }
}

#[test]
fn an_unknown_name_is_answered_by_those_there_are() {
    let said = "zip".parse::<Kind>().unwrap_err().to_string();
    let (_, names) = said.split_once("choose ").unwrap();
    let words = names.split([' ', ',', ';']);
    // A word with a number or a hyphen looks like a name, so it must be a name.
    let looks_like_one = |word: &str| word.contains(|letter: char| letter == '-' || letter.is_ascii_digit());
    let is_name = |word: &&str| looks_like_one(word) || word.parse::<Kind>().is_ok();
    let named: Vec<&str> = words.filter(is_name).collect();
    for name in &named {
        assert!(name.parse::<Kind>().is_ok(), "{name:?} in {said:?}");
    }
    // The text must have all families of names, but not every number.
    let family = |name: &str| name.trim_end_matches(|letter: char| letter.is_ascii_digit()).to_owned();
    for name in ALL.into_iter().filter(|name| !name.ends_with("-ef")) {
        assert!(named.iter().any(|other| family(other) == family(name)), "{name} is not in {said:?}");
    }
}

#[test]
fn feedback_around_codecs_that_have_no_name_with_it() {
    assert_eq!(ErrorFeedback::new(Uncompressed).kind(), Kind::None);
    assert_eq!(ErrorFeedback::new(Shared::new(1)).kind(), Kind::Shared);
    assert_eq!(ErrorFeedback::new(TopK::new(100)).kind().to_string(), "top-100-ef");
}
