//! Register arrays.

use crate::program::{LIMBS, Line, RegisterProgram};

/// The cells of one array.
#[derive(Debug, Clone)]
pub(crate) enum Registers {
    /// Cells of up to 64 bits.
    Words(Vec<u64>),
    /// Cells of so many lines each.
    Lines(Vec<Line>, usize),
}

impl Registers {
    /// An array, all zeros.
    pub(crate) fn new(program: RegisterProgram) -> Self {
        match program.lines {
            0 => Self::Words(vec![0; program.size]),
            lines => Self::Lines(vec![[0; LIMBS]; program.size * lines], lines),
        }
    }

    /// How many cells there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Words(words) => words.len(),
            Self::Lines(lines, n) => lines.len() / n,
        }
    }

    /// Sets a cell of any array to a number, the lowest limb first.
    pub(crate) fn set(&mut self, index: u64, limbs: &[u64]) {
        if let Some(cell) = self.lines_mut(index) {
            let cell = cell.as_flattened_mut();
            cell.fill(0);
            cell.iter_mut().zip(limbs).for_each(|(to, from)| *to = *from);
        } else {
            self.set_word(index, limbs.first().copied().unwrap_or(0));
        }
    }

    /// A cell of a narrow array.
    #[inline(always)]
    pub(crate) fn word(&self, index: u64) -> Option<u64> {
        match self {
            Self::Words(words) => words.get(usize::try_from(index).ok()?).copied(),
            Self::Lines(..) => None,
        }
    }

    /// Changes a cell of a narrow array. An index behind the end changes nothing, as on BMv2.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, index: u64, value: u64) {
        if let Self::Words(words) = self
            && let Some(word) = usize::try_from(index).ok().and_then(|index| words.get_mut(index))
        {
            *word = value;
        }
    }

    /// A cell of a wide array.
    pub(crate) fn lines(&self, index: u64) -> Option<&[Line]> {
        match self {
            Self::Words(_) => None,
            Self::Lines(lines, n) => {
                let first = usize::try_from(index).ok()?.checked_mul(*n)?;
                lines.get(first..first.checked_add(*n)?)
            }
        }
    }

    /// A cell of a wide array, mutable.
    pub(crate) fn lines_mut(&mut self, index: u64) -> Option<&mut [Line]> {
        match self {
            Self::Words(_) => None,
            Self::Lines(lines, n) => {
                let first = usize::try_from(index).ok()?.checked_mul(*n)?;
                lines.get_mut(first..first.checked_add(*n)?)
            }
        }
    }
}
