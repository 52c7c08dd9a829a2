//! Register arrays.
//!
//! A program that keeps more data for a packet than a cell holds has several wide arrays of one
//! size, and accesses them with one index. So the cells with the same index are adjacent in memory,
//! in the order of the arrays. If each array had separate memory, each cell would be on another
//! page. The processor would have to find each page, and could not predict the next one. That took
//! a quarter of the time in which the project's program adds 2,048 values.

use crate::lines::Lines;
use crate::program::{Line, RegisterProgram};

/// The register arrays of a program, by their index in the program.
#[derive(Debug)]
pub(crate) struct Registers {
    arrays: Vec<Array>,
    blocks: Vec<ArrayBlock>,
}

/// The cells of one array.
#[derive(Debug)]
enum Array {
    /// Cells of up to 64 bits.
    Words(Vec<u64>),
    /// Cells of `count` lines, from line `first` on in each row of a block.
    Lines { block: usize, first: usize, count: usize },
}

/// The wide arrays of one size. A row has the cells of all these arrays with one index.
#[derive(Debug)]
struct ArrayBlock {
    rows: usize,
    /// Number of lines in a row.
    width: usize,
    lines: Lines,
}

/// A copy of the contents of one array.
#[derive(Debug)]
pub(crate) enum Contents {
    Words(Vec<u64>),
    Lines(Vec<Line>),
}

impl Registers {
    /// Creates the arrays, filled with zeros.
    pub(crate) fn new(programs: &[RegisterProgram]) -> Self {
        let mut blocks = Vec::<ArrayBlock>::new();
        let arrays = programs.iter().map(|program| match program.lines {
            0 => Array::Words(vec![0; program.size]),
            count => {
                let block = blocks.iter().position(|block| block.rows == program.size).unwrap_or_else(|| {
                    blocks.push(ArrayBlock { rows: program.size, width: 0, lines: Lines::zeros(0) });
                    blocks.len() - 1
                });
                let first = blocks[block].width;
                blocks[block].width += count;
                Array::Lines { block, first, count }
            }
        });
        let arrays = arrays.collect();
        for block in &mut blocks {
            block.lines = Lines::zeros(block.rows * block.width);
        }
        Self { arrays, blocks }
    }

    /// Returns the number of cells that an array has.
    pub(crate) fn len(&self, array: usize) -> usize {
        match &self.arrays[array] {
            Array::Words(words) => words.len(),
            Array::Lines { block, .. } => self.blocks[*block].rows,
        }
    }

    /// Sets a cell of any array to a number, the lowest limb first.
    pub(crate) fn set(&mut self, array: usize, index: u64, limbs: &[u64]) {
        if let Some(cell) = self.lines_mut(array, index) {
            let cell = cell.as_flattened_mut();
            cell.fill(0);
            cell.iter_mut().zip(limbs).for_each(|(to, from)| *to = *from);
        } else {
            self.set_word(array, index, limbs.first().copied().unwrap_or(0));
        }
    }

    /// Returns a cell of a narrow array.
    #[inline(always)]
    pub(crate) fn word(&self, array: usize, index: u64) -> Option<u64> {
        match &self.arrays[array] {
            Array::Words(words) => words.get(usize::try_from(index).ok()?).copied(),
            Array::Lines { .. } => None,
        }
    }

    /// Changes a cell of a narrow array. An index behind the end changes nothing, as on BMv2.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, array: usize, index: u64, value: u64) {
        if let Array::Words(words) = &mut self.arrays[array]
            && let Some(word) = usize::try_from(index).ok().and_then(|index| words.get_mut(index))
        {
            *word = value;
        }
    }

    /// Returns a cell of a wide array.
    pub(crate) fn lines(&self, array: usize, index: u64) -> Option<&[Line]> {
        let Array::Lines { block, first, count } = self.arrays[array] else { return None };
        let block = &self.blocks[block];
        let first = usize::try_from(index).ok()?.checked_mul(block.width)?.checked_add(first)?;
        block.lines.get(first..first.checked_add(count)?)
    }

    /// Returns a cell of a wide array, for changes.
    fn lines_mut(&mut self, array: usize, index: u64) -> Option<&mut [Line]> {
        self.neighbours_mut(array, 0, index)
    }

    /// Returns a cell of a wide array, followed by the cells with the same index of the next `more`
    /// arrays.
    ///
    /// Each array must be [next](RegisterProgram::is_next_to) to its predecessor.
    #[inline(always)]
    pub(crate) fn neighbours_mut(&mut self, array: usize, more: usize, index: u64) -> Option<&mut [Line]> {
        let Array::Lines { block, first, .. } = self.arrays[array] else { return None };
        let Array::Lines { first: last, count, .. } = self.arrays[array + more] else { return None };
        let block = &mut self.blocks[block];
        let row = usize::try_from(index).ok()?.checked_mul(block.width)?;
        block.lines.get_mut(row.checked_add(first)?..row.checked_add(last)?.checked_add(count)?)
    }

    /// Returns a copy of an array.
    pub(crate) fn contents(&self, array: usize) -> Contents {
        match &self.arrays[array] {
            Array::Words(words) => Contents::Words(words.clone()),
            Array::Lines { .. } => {
                let cells = (0..self.len(array) as u64).filter_map(|index| self.lines(array, index));
                Contents::Lines(cells.flatten().copied().collect())
            }
        }
    }

    /// Restores an array from a copy of its contents.
    pub(crate) fn put_back(&mut self, array: usize, contents: Contents) {
        match (&mut self.arrays[array], contents) {
            (Array::Words(words), Contents::Words(kept)) => *words = kept,
            (Array::Lines { count, .. }, Contents::Lines(kept)) => {
                let count = *count;
                for (index, kept) in (0..).zip(kept.chunks_exact(count)) {
                    if let Some(cell) = self.lines_mut(array, index) {
                        cell.copy_from_slice(kept);
                    }
                }
            }
            // This case does not occur, because the width of an array never changes.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::program::LIMBS;

    /// Generates sizes and widths of arrays.
    fn programs() -> impl Strategy<Value = Vec<RegisterProgram>> {
        prop::collection::vec((0_usize..4, 0_usize..4), 1..8).prop_map(|programs| {
            programs.into_iter().map(|(size, lines)| RegisterProgram { size, lines }).collect()
        })
    }

    /// Returns all limbs of a cell; `None` if the cell does not exist.
    fn cell(registers: &Registers, array: usize, index: u64) -> Option<Vec<u64>> {
        let word = registers.word(array, index).map(|word| vec![word]);
        word.or_else(|| Some(registers.lines(array, index)?.as_flattened().to_vec()))
    }

    proptest! {
        #[test]
        fn each_cell_keeps_what_was_written_to_it_last(
            programs in programs(),
            writes in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..5, any::<u64>()), 0..40),
        ) {
            let mut registers = Registers::new(&programs);
            let zeros = |program: &RegisterProgram| vec![vec![0; (program.lines * LIMBS).max(1)]; program.size];
            let mut expected: Vec<Vec<Vec<u64>>> = programs.iter().map(zeros).collect();
            let mut kept = None;
            for (number, (array, index, value)) in writes.into_iter().enumerate() {
                let array = array.index(programs.len());
                prop_assert_eq!(registers.len(array), programs[array].size);
                if number == 20 {
                    kept = Some((array, registers.contents(array), expected[array].clone()));
                }
                let limbs: Vec<u64> = (0..40).map(|limb| value.rotate_left(limb)).collect();
                registers.set(array, index, &limbs);
                if let Some(cell) = expected[array].get_mut(index as usize) {
                    let len = cell.len();
                    cell.copy_from_slice(&limbs[..len]);
                }
            }
            if let Some((array, contents, cells)) = kept {
                registers.put_back(array, contents);
                expected[array] = cells;
            }
            for (array, cells) in expected.iter().enumerate() {
                for index in 0..5 {
                    let found = cell(&registers, array, index);
                    prop_assert_eq!(found.as_ref(), cells.get(index as usize));
                }
            }
        }
    }
}
