//! Tests of codes that can be summed without decoding.

use proptest::prelude::*;
use tributary_codec::{Codebook, Codec, EncodeError, Lanes, LanesError, Shared, Sketch, decode};

use crate::support::long_tailed;

/// Makes gradients of several workers, with equal distributions but different values.
fn workers(count: usize, len: usize) -> Vec<Vec<f32>> {
    let rotated = |worker: usize| {
        let mut gradient = long_tailed(len);
        gradient.rotate_left(worker * 7 % len.max(1));
        gradient.iter_mut().for_each(|value| *value *= 1.0 + worker as f32 / 10.0);
        gradient
    };
    (0..count).map(rotated).collect()
}

/// Makes encoders that have agreed on the sum of their sketches. The sum is computed like in a fabric.
fn agreed(gradients: &[Vec<f32>]) -> Vec<Shared> {
    let mut codecs: Vec<Shared> = (0..gradients.len() as u64).map(Shared::new).collect();
    let mut sum = vec![0; Sketch::LANES];
    for (codec, gradient) in codecs.iter_mut().zip(gradients) {
        let sketch = codec.propose(gradient).unwrap().unwrap();
        sum.iter_mut().zip(sketch.lanes()).for_each(|(sum, count)| *sum += count);
    }
    let sum = Sketch::from_lanes(sum).unwrap();
    codecs.iter_mut().for_each(|codec| codec.agree(&sum).unwrap());
    codecs
}

fn added<T: Copy + std::ops::AddAssign>(rows: impl Iterator<Item = Vec<T>>) -> Vec<T> {
    rows.reduce(|mut sum, row| {
        sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        sum
    })
    .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn added_integers_are_added_gradients_bit_for_bit(count in 1usize..40, len in 1usize..3000) {
        let gradients = workers(count, len);
        let mut codecs = agreed(&gradients);
        let codebook = codecs[0].codebook().unwrap().clone();
        prop_assert!(codecs.iter().all(|codec| codec.codebook() == Some(&codebook)));

        let lanes = Lanes::new(&codebook, count as u32, len).unwrap();
        let in_the_fabric = added(gradients.iter().map(|gradient| lanes.pack(gradient).unwrap()));
        prop_assert_eq!(in_the_fabric.len(), lanes.count());
        let at_a_server = added(codecs.iter_mut().zip(&gradients).map(|(codec, gradient)| {
            decode(&codec.encode(gradient).unwrap(), len).unwrap()
        }));
        prop_assert_eq!(lanes.sum(&in_the_fabric).unwrap(), at_a_server);
    }
}

#[test]
fn eight_workers_send_four_values_in_an_integer() {
    let gradients = workers(8, 10_000);
    let codecs = agreed(&gradients);
    let lanes = Lanes::new(codecs[0].codebook().unwrap(), 8, 10_000).unwrap();
    assert_eq!(lanes.count(), 2500);
}

#[test]
fn what_is_no_sum_of_levels_is_noticed() {
    let gradients = workers(3, 100);
    let codebook = agreed(&gradients)[0].codebook().unwrap().clone();
    let lanes = Lanes::new(&codebook, 3, 100).unwrap();
    let mut sum = added(gradients.iter().map(|gradient| lanes.pack(gradient).unwrap()));
    assert!(matches!(lanes.sum(&sum[1..]), Err(LanesError::Length { .. })));
    sum[5] = -1;
    assert_eq!(lanes.sum(&sum), Err(LanesError::Sum { lane: 5, value: -1 }));
    sum[5] = 0b11_1111;
    assert_eq!(lanes.sum(&sum), Err(LanesError::Sum { lane: 5, value: 63 }));
    assert_eq!(lanes.pack(&[0.0; 7]), Err(EncodeError::Values { expected: 100, got: 7 }));
    assert!(matches!(Lanes::new(&codebook, u32::MAX, 100), Err(LanesError::TooManyWorkers(_))));
}

#[test]
fn an_empty_sum_is_no_agreement() {
    let nothing = Sketch::from_lanes(vec![0; Sketch::LANES]).unwrap();
    assert_eq!(Codebook::from_sketch(&nothing), Err(EncodeError::EmptySketch));
}
