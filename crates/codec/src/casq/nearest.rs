//! The search for the nearest cluster of each value.

use multiversion::multiversion;

use crate::bits::pack;

use super::MOST_CLUSTERS;

/// Finds the nearest centre of a value.
/// On a line, the number of midpoints below the value is the index of this centre.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nearest {
    midpoints: Vec<f32>,
}

impl Nearest {
    /// Prepares the search for at most [`MOST_CLUSTERS`] centres in ascending order.
    pub(crate) fn new(centres: &[f64]) -> Self {
        let midpoints = centres.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]) as f32);
        let mut midpoints: Vec<f32> = midpoints.take(MOST_CLUSTERS - 1).collect();
        // Centres that differ by less than their rounding errors can be in the wrong order.
        midpoints.sort_unstable_by(f32::total_cmp);
        Self { midpoints }
    }

    /// Returns the midpoints between the clusters, in ascending order.
    pub(super) fn midpoints(&self) -> &[f32] {
        &self.midpoints
    }

    /// Writes the clusters of `values` to `clusters`.
    pub(crate) fn find(&self, values: &[f32], clusters: &mut [u8]) {
        find(values, &self.midpoints, clusters);
    }

    /// Appends the clusters of a whole gradient to `out`, packed at `width` bits.
    /// Returns the number of members of each cluster.
    pub(crate) fn pack(&self, gradient: &[f32], width: u32, out: &mut Vec<u8>) -> [u32; MOST_CLUSTERS] {
        // Counts the values above each midpoint.
        let fill = |start: usize, clusters: &mut [u8], above: &mut [u32; MOST_CLUSTERS]| {
            let values = &gradient[start..start + clusters.len()];
            self.find(values, clusters);
            for (midpoint, above) in self.midpoints.iter().zip(above) {
                *above += count_above(values, *midpoint);
            }
        };
        let add = |mut a: [u32; MOST_CLUSTERS], b: [u32; MOST_CLUSTERS]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let above = pack(out, gradient.len(), width, fill, add);
        let mut left = gradient.len() as u32;
        above.map(|above| std::mem::replace(&mut left, above) - above)
    }
}

/// Handles one midpoint at a time, because each of these loops compiles to the widest vector
/// instructions of the processor.
#[multiversion(targets("x86_64+avx2"))]
fn find(values: &[f32], midpoints: &[f32], clusters: &mut [u8]) {
    clusters.fill(0);
    for midpoint in midpoints {
        for (cluster, value) in clusters.iter_mut().zip(values) {
            *cluster += u8::from(value > midpoint);
        }
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn count_above(values: &[f32], midpoint: f32) -> u32 {
    values.iter().map(|value| u32::from(*value > midpoint)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_goes_to_its_nearest_centre() {
        let nearest = Nearest::new(&[-4.0, 0.0, 1.0, 10.0]);
        let mut clusters = [9; 6];
        let values = [-9.0, -2.1, -1.9, 0.6, 5.4, 5.6];
        nearest.find(&values, &mut clusters);
        assert_eq!(clusters, [0, 0, 1, 2, 2, 3]);
        assert_eq!(nearest.pack(&values, 2, &mut Vec::new()), [2, 1, 2, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn centres_that_rounding_has_swapped_do_no_harm() {
        let nearest = Nearest::new(&[0.0, 2.0, 1.0, 1.5]);
        assert_eq!(nearest.pack(&[-1.0, 1.1, 1.3, 1.6, 9.0], 2, &mut Vec::new())[..4], [1, 1, 1, 2]);
    }
}
