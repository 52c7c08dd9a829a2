//! Tests that sums of adversarial inputs, through the Rust client, are as `docs/numbers.md` promises.

use std::fmt::Debug;

use crate::pair::Hosts;
use half::{bf16, f16};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tributary_client::{Element, ElementType, Job, Operation};

/// The most elements of one all-reduce.
const AT_ONCE: usize = 1 << 16;
/// Magnitudes are from 2^-WIDE to 2^WIDE.
const WIDE: i32 = 120;
/// The largest error of a sum in the standard precision, relative to the sum of its contributions'
/// magnitudes.
const STANDARD: f64 = 1.0 / 4096.0;
/// The largest error of the sum of two 16-bit floats before it is rounded to 16 bits.
/// It is relative to the largest magnitude that a rank contributes to one of [`NEIGHBOURS`] elements.
const PAIRED: f64 = 1.0 / 512.0;
/// The number of neighbouring elements that determine the error of 16-bit floats.
const NEIGHBOURS: usize = 8;

/// An element type with the sum that the documentation promises.
trait Summed: Element + Debug {
    /// Returns the value of this type that is nearest to `value`.
    fn of(value: f64) -> Self;
    /// Returns the value with these bits.
    fn of_bits(bits: u64) -> Self;
    fn value(self) -> f64;
    /// Returns the sum by IEEE 754's addition: the f32 or f64 that is nearest to the exact sum, rounded
    /// to this type.
    fn sum(self, other: Self) -> Self;
}

macro_rules! summed {
    ($element:ty, $bits:ty, $of:expr, $value:expr, $sum:expr) => {
        impl Summed for $element {
            fn of(value: f64) -> Self {
                $of(value)
            }

            fn of_bits(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn value(self) -> f64 {
                $value(self)
            }

            fn sum(self, other: Self) -> Self {
                $sum(self, other)
            }
        }
    };
}

summed!(f32, u32, |value| value as f32, f64::from, |a, b| a + b);
summed!(f64, u64, |value| value, |value| value, |a, b| a + b);
summed!(f16, u16, Self::from_f64, Self::to_f64, |a: Self, b: Self| Self::from_f32(a.to_f32() + b.to_f32()));
summed!(bf16, u16, Self::from_f64, Self::to_f64, |a: Self, b: Self| Self::from_f32(a.to_f32() + b.to_f32()));

/// Returns the inputs of one rank, which are of one of six kinds.
fn inputs<T: Summed>(random: &mut StdRng, len: usize) -> Vec<T> {
    let kind = random.random_range(0..6);
    let wide = |random: &mut StdRng| {
        random.random_range(-1.0..1.0) * f64::from(random.random_range(-WIDE..=WIDE)).exp2()
    };
    let value = |at: usize| match kind {
        0 => T::of(wide(random)),
        // A huge value occurs at each position of a block in turn.
        1 if at.is_multiple_of(257) => T::of(f64::from(WIDE).exp2()),
        1 => T::of(random.random_range(-1e-9..1e-9)),
        // The inputs are subnormal numbers of f32, and zeros of both signs.
        2 if random.random_bool(0.2) => T::of(if random.random() { 0.0 } else { -0.0 }),
        2 => T::of(f64::from(random.random_range(-(1 << 24)..1 << 24)) * (-149.0_f64).exp2()),
        // The inputs are gradients, followed by uninitialised memory.
        3 if at > len / 3 * 2 => T::of_bits(random.random()),
        4 if random.random_ratio(1, 5000) => {
            T::of([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][random.random_range(0..3)])
        }
        4 => T::of(wide(random)),
        _ => T::of(random.random_range(-1e-2..1e-2)),
    };
    (0..len).map(value).collect()
}

/// Returns the inputs of both ranks. A third of the second rank's values nearly cancel the first
/// rank's values.
fn both<T: Summed>(random: &mut StdRng, len: usize) -> [Vec<T>; 2] {
    let (first, mut second) = (inputs::<T>(random, len), inputs(random, len));
    for (value, other) in second.iter_mut().zip(&first) {
        if random.random_ratio(1, 3) {
            *value = T::of(-other.value() * (1.0 + (-20.0_f64).exp2()));
        }
    }
    [first, second]
}

async fn reduce<T: Summed>(job: &Job, element_type: ElementType, values: &[T]) -> Vec<T> {
    let mut segment = job.segment(size_of_val(values)).await.unwrap();
    segment.elements_mut().unwrap().copy_from_slice(values);
    let operation = Operation { element_type, ..Operation::whole::<T>() };
    job.all_reduce(&mut segment, operation).await.unwrap();
    let sums = segment.elements().unwrap()[..values.len()].to_vec();
    job.release(segment).await.unwrap();
    sums
}

/// Sums both ranks' inputs. Compares the sums with the promise of their type, and the bits of both
/// ranks with each other.
async fn check<T: Summed>(jobs: &[Job; 2], random: &mut StdRng, len: usize, element_type: ElementType) {
    let inputs = both::<T>(random, len);
    let [first, second] = [0, 1].map(|rank: usize| reduce(&jobs[rank], element_type, &inputs[rank]));
    let (sums, others) = tokio::join!(first, second);
    assert!(
        bytemuck::cast_slice::<T, u8>(&sums) == bytemuck::cast_slice::<T, u8>(&others),
        "{element_type:?}"
    );
    for (at, ((&a, &b), &sum)) in inputs[0].iter().zip(&inputs[1]).zip(&sums).enumerate() {
        let (exact, sum) = (a.sum(b).value(), sum.value());
        let is_right = sum == exact || (sum.is_nan() && exact.is_nan());
        let allowed = match element_type {
            ElementType::F32 => STANDARD * (a.value().abs() + b.value().abs()),
            ElementType::F16 | ElementType::Bf16 => {
                let neighbours = at / NEIGHBOURS * NEIGHBOURS..len.min((at / NEIGHBOURS + 1) * NEIGHBOURS);
                let magnitudes = inputs.iter().flat_map(|inputs| &inputs[neighbours.clone()]);
                let magnitudes = magnitudes.map(|value| value.value().abs());
                PAIRED * magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max)
            }
            _ => 0.0,
        };
        let is_near = || {
            let [least, most] = [-allowed, allowed].map(|error| T::of(a.value() + b.value() + error).value());
            (least..=most).contains(&sum)
        };
        assert!(
            is_right || allowed > 0.0 && exact.is_finite() && is_near(),
            "{element_type:?}: {a:?} + {b:?} = {sum:e}, and should be {exact:e}"
        );
    }
}

#[tokio::test]
async fn sums_of_adversarial_inputs_keep_the_promise_on_numbers() {
    let hosts = Hosts::start().await;
    let jobs = hosts.join_both().await;
    let count = std::env::var("TRIBUTARY_ELEMENTS").map_or(1 << 20, |count| count.parse().unwrap());
    let mut random = StdRng::seed_from_u64(1);
    let mut done = 0;
    while done < count {
        let len = (AT_ONCE - random.random_range(0..300)).min(count - done);
        match random.random_range(0..8) {
            0 => check::<f16>(&jobs, &mut random, len, ElementType::F16).await,
            1 => check::<bf16>(&jobs, &mut random, len, ElementType::Bf16).await,
            4 => check::<f16>(&jobs, &mut random, len, ElementType::F16Exact).await,
            5 => check::<bf16>(&jobs, &mut random, len, ElementType::Bf16Exact).await,
            2 => check::<f64>(&jobs, &mut random, len, ElementType::F64).await,
            3 => check::<f32>(&jobs, &mut random, len, ElementType::F32Exact).await,
            _ => check::<f32>(&jobs, &mut random, len, ElementType::F32).await,
        }
        done += len;
    }
}
