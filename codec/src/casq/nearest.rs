//! The nearest cluster of each value.

use crate::bits::pack;

use super::MOST_CLUSTERS;

/// On a line, a value's nearest centre is told by the midpoints that it is above of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nearest {
    midpoints: Vec<f32>,
}

impl Nearest {
    /// For centres in ascending order, [`MOST_CLUSTERS`] at most.
    pub(crate) fn new(centres: &[f64]) -> Self {
        let midpoints = centres.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]) as f32);
        Self { midpoints: midpoints.take(MOST_CLUSTERS - 1).collect() }
    }

    /// Writes the clusters of `values` to `clusters`.
    pub(crate) fn find(&self, values: &[f32], clusters: &mut [u8]) {
        clusters.fill(0);
        for midpoint in &self.midpoints {
            // One midpoint at a time: each of these loops compiles to vector instructions.
            for (cluster, value) in clusters.iter_mut().zip(values) {
                *cluster += u8::from(value > midpoint);
            }
        }
    }

    /// Appends the clusters of a whole gradient to `out`, packed at `width` bits, and returns how many members
    /// each has.
    pub(crate) fn pack(&self, gradient: &[f32], width: u32, out: &mut Vec<u8>) -> [u32; MOST_CLUSTERS] {
        let fill = |start: usize, clusters: &mut [u8], members: &mut [u32; MOST_CLUSTERS]| {
            self.find(&gradient[start..], clusters);
            for (cluster, members) in (0..=self.midpoints.len() as u8).zip(members) {
                *members += clusters.iter().map(|other| u32::from(*other == cluster)).sum::<u32>();
            }
        };
        let add = |mut a: [u32; MOST_CLUSTERS], b: [u32; MOST_CLUSTERS]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        pack(out, gradient.len(), width, fill, add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_goes_to_its_nearest_centre() {
        let nearest = Nearest::new(&[-4.0, 0.0, 1.0, 10.0]);
        let mut clusters = [9; 6];
        nearest.find(&[-9.0, -2.1, -1.9, 0.6, 5.4, 5.6], &mut clusters);
        assert_eq!(clusters, [0, 0, 1, 2, 2, 3]);
    }
}
