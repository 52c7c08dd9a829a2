//! Hashes of positions.
//! They are cheap and stateless, so any core can hash any value, and all machines get equal results.

/// 2^32 divided by the golden ratio, as an odd number.
/// Its multiples spread evenly over 32 bits (Knuth, The Art of Computer Programming, volume 3, section 6.4).
const GOLDEN: u32 = 0x9E37_79B1;

/// Returns the bucket, below `buckets`, of the value at `index`.
/// This function is part of the [format](crate::wire), so it must not change.
///
/// The first multiplication spreads the positions. The second multiplication reduces the hash without a division. It
/// keeps the high bits, which are well mixed (Lemire, "Fast random integer generation in an interval", 2019).
#[inline(always)]
pub(crate) fn bucket(index: u32, buckets: u32) -> u32 {
    let hash = index.wrapping_mul(GOLDEN);
    ((u64::from(hash) * u64::from(buckets)) >> 32) as u32
}

/// Returns 32 pseudo-random bits for an `index`. Each `seed` has its own sequence.
/// The last steps are the finaliser of MurmurHash3, in which each bit of the input changes half of the bits of the
/// output.
#[inline(always)]
pub(crate) fn random(seed: u32, index: u32) -> u32 {
    let mut x = index.wrapping_mul(GOLDEN).wrapping_add(seed);
    x = (x ^ (x >> 16)).wrapping_mul(0x85EB_CA6B);
    x = (x ^ (x >> 13)).wrapping_mul(0xC2B2_AE35);
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_fill_evenly() {
        for buckets in [1, 2, 3, 100, 783] {
            let mut counts = vec![0_u32; buckets as usize];
            (0..100_000).for_each(|index| counts[bucket(index, buckets) as usize] += 1);
            let even = 100_000.0 / f64::from(buckets);
            assert!(counts.iter().all(|count| (f64::from(*count) / even - 1.0).abs() < 0.1), "{buckets}");
        }
    }

    #[test]
    fn random_numbers_are_uniform_and_differ_by_seed() {
        let mean = |seed| (0..100_000).map(|i| f64::from(random(seed, i))).sum::<f64>() / 1e5 / 2f64.powi(32);
        assert!((mean(1) - 0.5).abs() < 0.01 && (mean(2) - 0.5).abs() < 0.01);
        assert!((0..1000).filter(|i| random(1, *i) == random(2, *i)).count() < 3);
    }
}
