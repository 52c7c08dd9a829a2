//! Sums of the values in buckets. A bucket of a cluster with few buckets is divided into several cells.
//!
//! An addition to a cell must wait for the previous addition to this cell. Most values of a gradient are in the cluster
//! around 0, which has few buckets. One sum for all of these values would take several times as long.

use std::ops::Range;

use multiversion::multiversion;

use super::MOST_CLUSTERS;
use super::nearest::Nearest;
use crate::hash;
use crate::pieces::BLOCK;
use crate::quantile::Sum;

/// The cells of all clusters, in the order of the clusters.
#[derive(Debug)]
pub(super) struct Cells {
    /// The cells of the lowest cluster.
    first: CellRange,
    steps: Steps,
    total: usize,
}

/// A cluster's first cell, and its number of cells.
#[derive(Debug, Clone, Copy, Default)]
struct CellRange {
    start: u32,
    cells: u32,
}

/// The step from one cluster to the next.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Values above this midpoint are in the next cluster, or a later one.
    midpoint: f32,
    /// The difference between the cell ranges of the two clusters, mod 2^32.
    change: CellRange,
}

type Steps = [Step; MOST_CLUSTERS - 1];

impl Step {
    /// A step that no value takes.
    const UNUSED: Self = Self { midpoint: f32::INFINITY, change: CellRange { start: 0, cells: 0 } };

    fn is_unused(&self) -> bool {
        self.midpoint == f32::INFINITY
    }
}

/// The minimum number of cells of a cluster.
/// The hash uses multiples of the golden ratio. With 16 cells, the same cell comes again only after eight values.
const LEAST_CELLS: u32 = 16;

impl Cells {
    /// Makes the cells of clusters with these numbers of buckets.
    pub(super) fn new(nearest: &Nearest, counts: &[u32]) -> Self {
        let mut total = 0;
        let place = |count: &u32| {
            let place = CellRange { start: total, cells: count * cells_of_bucket(*count) };
            total += place.cells;
            place
        };
        let places: Vec<CellRange> = counts.iter().map(place).collect();
        let mut steps = [Step::UNUSED; MOST_CLUSTERS - 1];
        let pairs = nearest.midpoints().iter().zip(places.windows(2));
        for (step, (midpoint, pair)) in steps.iter_mut().zip(pairs) {
            let start = pair[1].start.wrapping_sub(pair[0].start);
            let change = CellRange { start, cells: pair[1].cells.wrapping_sub(pair[0].cells) };
            *step = Step { midpoint: *midpoint, change };
        }
        let first = places.first().copied().unwrap_or_default();
        Self { first, steps, total: total as usize }
    }

    /// Adds `values` to the sums of their cells, and returns the sums.
    /// The first value is at `start` in the gradient.
    pub(super) fn add_up(&self, values: &[f32], start: usize) -> Vec<Sum> {
        let mut sums = vec![Sum::default(); self.total];
        let mut cells = [0; BLOCK];
        for (block, values) in values.chunks(BLOCK).enumerate() {
            let position = (start + block * BLOCK) as u32;
            find_cells(values, position, self.first, &self.steps, &mut cells);
            for (value, cell) in values.iter().zip(&cells) {
                let [sum, count] = &mut sums[*cell as usize];
                *sum += f64::from(*value);
                *count += 1.0;
            }
        }
        sums
    }
}

/// Returns the cells of each bucket.
///
/// If there are s times as many cells as buckets, cell ⌊h · s · buckets⌋ is in bucket ⌊h · buckets⌋, for all h.
pub(super) fn of_buckets(counts: &[u32]) -> Vec<Range<usize>> {
    let sizes = counts.iter().flat_map(|count| (0..*count).map(|_| cells_of_bucket(*count) as usize));
    let cells = sizes.scan(0, |end, size| {
        *end += size;
        Some(*end - size..*end)
    });
    cells.collect()
}

fn cells_of_bucket(buckets: u32) -> u32 {
    LEAST_CELLS.div_ceil(buckets.max(1))
}

/// Finds the cell of each value. The first value is at `position`.
#[multiversion(targets("x86_64+avx2"))]
fn find_cells(values: &[f32], position: u32, first: CellRange, steps: &Steps, cells: &mut [u32; BLOCK]) {
    match steps.split_first_chunk() {
        Some((few, more)) if more.iter().all(Step::is_unused) => {
            find_cells_by::<FEW>(values, position, first, few, cells);
        }
        _ => find_cells_by(values, position, first, steps, cells),
    }
}

/// The number of steps between four clusters.
const FEW: usize = 3;

/// Finds cells with a number of steps that the compiler knows, so that the loop compiles to vector
/// instructions.
#[inline(always)]
fn find_cells_by<const STEPS: usize>(
    values: &[f32],
    position: u32,
    first: CellRange,
    steps: &[Step; STEPS],
    cells: &mut [u32; BLOCK],
) {
    for ((cell, value), place) in cells.iter_mut().zip(values).zip(0..) {
        let CellRange { mut start, mut cells } = first;
        for Step { midpoint, change } in steps {
            let above = if value > midpoint { u32::MAX } else { 0 };
            start = start.wrapping_add(above & change.start);
            cells = cells.wrapping_add(above & change.cells);
        }
        *cell = start.wrapping_add(hash::bucket(position.wrapping_add(place), cells));
    }
}
