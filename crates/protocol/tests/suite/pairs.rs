//! Tests of paired elements, two of which share a value of a slice.

use half::bf16;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tributary_protocol::{AllReduce, GradientData, OperationId, Sums};
use tributary_wire::{Rank, SliceWidth};

use crate::schedules::calm;
use crate::world::{Setup, World, operation};

/// Sums of the contributions to one all-reduce of paired bfloat16.
struct PairedSums {
    exact: Vec<f64>,
    /// The sums over the fabric, rounded to bfloat16.
    fabric: Vec<f64>,
    /// The sums of a ring, which rounds each addition to bfloat16.
    ring: Vec<f64>,
    /// The number of slices with the operator SUM.
    slices: usize,
}

impl PairedSums {
    /// Sums `len` elements of each member. `value` returns the contribution to an element.
    fn of(members: usize, len: usize, mut value: impl FnMut(&mut ChaCha8Rng, usize) -> f64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(members as u64);
        let mut element = |at| bf16::from_f64(value(&mut random, at)).to_f32();
        let contributions: Vec<Vec<f32>> =
            (0..members).map(|_| (0..len).map(&mut element).collect()).collect();
        let input = |values: &Vec<f32>| vec![operation("layer", GradientData::BF16Paired(values.clone()), 1)];
        let inputs: Vec<Vec<AllReduce>> = contributions.iter().map(input).collect();
        let (sums, slices) = sums(&inputs);
        let of_element = |at: usize| contributions.iter().map(move |values| values[at]);
        let ring = |at| of_element(at).fold(bf16::ZERO, |sum, value| bf16::from_f32(sum.to_f32() + value));
        Self {
            exact: (0..len).map(|at| of_element(at).map(f64::from).sum()).collect(),
            fabric: sums.iter().map(|sum| bf16::from_f32(*sum).to_f64()).collect(),
            ring: (0..len).map(|at| ring(at).to_f64()).collect(),
            slices,
        }
    }

    /// Returns the sums of the square errors of the fabric and of the ring, over these elements.
    fn errors(&self, elements: &(impl Iterator<Item = usize> + Clone)) -> [f64; 2] {
        [&self.fabric, &self.ring]
            .map(|sums| elements.clone().map(|at| (sums[at] - self.exact[at]).powi(2)).sum())
    }
}

/// Runs an operation of members at one switch.
/// Returns the sums, and the number of slices with the operator SUM.
fn sums(inputs: &[Vec<AllReduce>]) -> (Vec<f32>, usize) {
    let setup =
        Setup { parents: vec![None], aggregates: vec![true], homes: vec![0; inputs.len()], ..calm(64) };
    let mut world = World::new(&setup, inputs);
    world.run(usize::MAX).unwrap();
    let slices = world.summed[&Rank::new(0)].len();
    match &world.hosts[0].outcomes[&OperationId(0)].as_ref().unwrap().sums {
        Sums::F32(sums) => (sums.clone(), slices),
        other => panic!("{other:?}"),
    }
}

/// Returns a number with the normal distribution, by the Box-Muller transform.
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (random.random_range(f64::MIN_POSITIVE..1.0), random.random());
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

/// The number of elements of a slice.
const IN_SLICE: usize = 2 * SliceWidth::ETHERNET.values();

/// Fails if the errors over these elements are larger than those of a ring.
/// With two members, the ring rounds the exact sum once, and the fabric rounds before and after the addition.
fn check(sums: &PairedSums, elements: &(impl Iterator<Item = usize> + Clone)) {
    let [fabric, ring] = sums.errors(elements);
    assert!(fabric <= 1.1 * ring, "{fabric}, and {ring} by a ring");
}

#[test]
fn sums_take_half_the_slices_and_are_at_least_as_precise_as_additions_of_bfloat16() {
    for members in [2, 4, 8, 16, 32, 64] {
        let sums = PairedSums::of(members, 16 * IN_SLICE, |random, _| normal(random));
        check(&sums, &(0..16 * IN_SLICE));
        assert!(sums.slices <= 17, "{members} members: {} slices", sums.slices);
    }
}

#[test]
fn elements_beside_much_larger_ones_keep_their_precision() {
    for members in [2, 8, 64] {
        // Layers of 40 elements with different scales share blocks. Later layers are sparse.
        let scales = [1.0, 1e-3, 1e-6, 1e4];
        let scale = |at: usize| at / 40 % scales.len();
        let sums = PairedSums::of(members, 4 * IN_SLICE, |random, at| {
            let is_zero = at >= 2 * IN_SLICE && random.random_bool(0.9);
            if is_zero { 0.0 } else { scales[scale(at)] * normal(random) }
        });
        for one in 0..scales.len() {
            check(&sums, &(0..4 * IN_SLICE).filter(|at| scale(*at) == one));
        }
    }
}

#[test]
fn weighted_elements_of_the_smallest_magnitudes_are_exact_beside_large_ones() {
    type Data = fn(Vec<f32>) -> GradientData;
    let types: [(Data, i32); 3] =
        [(GradientData::F16Paired, -24), (GradientData::BF16Paired, -133), (GradientData::F32, -149)];
    for (data, lowest) in types {
        for [first, second] in [[1, 1], [3, 1], [3, 1000], [100, 100]] {
            let smallest = f32::from_bits(1) * 2f32.powi(lowest + 149);
            let mut values = vec![0.0; 256];
            for (at, units) in [(0, -5.0), (8, 7.0), (24, 1.0)] {
                values[at] = units * smallest;
            }
            values[64] = 1.0;
            let zeros = vec![0.0; values.len()];
            let inputs = [(values.clone(), first), (zeros, second)]
                .map(|(values, weight)| vec![operation("layer", data(values), weight)]);
            let (sums, _) = sums(&inputs);
            let product = |at: usize| f64::from(values[at]) * f64::from(first);
            let is_right =
                |at: &usize| (f64::from(sums[*at]) - product(*at)).abs() <= product(*at).abs() / 512.0;
            let wrong: Vec<usize> = (0..values.len()).filter(|at| !is_right(at)).collect();
            assert_eq!(wrong, [0; 0], "2^{lowest}, weights {first} and {second}");
        }
    }
}
