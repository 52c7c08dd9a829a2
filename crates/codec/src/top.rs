//! The codec `top-K`, which sends only the largest values.
//!
//! Source: Lin et al., "Deep Gradient Compression: Reducing the Communication Bandwidth for Distributed Training", ICLR
//! 2018.

use rayon::prelude::*;

use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::{Kind, LEAST_ONE_IN, Lossy};
use crate::pieces::PIECE;
use crate::positions::Layout;
use crate::wire::{Header, Reader};
use crate::write::Write;

pub(crate) const ID: u8 = 7;
const VALUE_LEN: usize = 4;

/// Sends one in K values unchanged, with their positions: the values of the largest magnitude.
/// All other values become 0.
///
/// With error feedback (`top-K-ef`) this is the paper's sparsification with accumulation of local gradients. Without
/// error feedback it is useless. The paper also has methods for accuracy that belong to the training and not to a
/// codec: momentum correction, momentum factor masking, clipping, and a warm-up that begins with a small K. The paper
/// chooses values by layer, with a threshold from a sample. Here the choice is exact, among all values of the code.
#[derive(Debug, Clone, Copy)]
pub struct TopK {
    one_in: u16,
}

impl TopK {
    /// Makes an encoder that sends one in `one_in` values, rounded up. `one_in` is at least 2.
    pub fn new(one_in: u16) -> Self {
        Self { one_in: one_in.max(LEAST_ONE_IN) }
    }
}

impl Codec for TopK {
    fn kind(&self) -> Kind {
        Lossy::TopK { one_in: self.one_in }.into()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        let count = sent(gradient.len(), self.one_in);
        let positions = largest(gradient, count);
        let layout = Layout::new(count, gradient.len(), self.one_in);
        let mut code = Header::start(ID, self.one_in, gradient, VALUE_LEN * count + layout.len())?;
        positions.iter().for_each(|position| code.extend(gradient[*position as usize].to_le_bytes()));
        layout.write(&positions, &mut code);
        Ok(code)
    }
}

/// Returns the number of values that are sent.
fn sent(values: usize, one_in: u16) -> usize {
    values.div_ceil(one_in.into())
}

/// Returns the positions of the `count` values of the largest magnitude, in ascending order.
/// Among equal magnitudes, the first positions are chosen.
fn largest(gradient: &[f32], count: usize) -> Vec<u32> {
    let Some(last) = count.checked_sub(1) else { return Vec::new() };
    let mut positions = not_below(gradient, range_of_threshold(gradient, count));
    let magnitude = |position: &u32| magnitude(gradient[*position as usize]);
    let mut magnitudes: Vec<u32> = positions.iter().map(magnitude).collect();
    let (larger, least, _) = magnitudes.select_nth_unstable_by(last, |a, b| b.cmp(a));
    let mut equal = count - larger.iter().filter(|larger| **larger > *least).count();
    positions.retain(|position| {
        let here = magnitude(position);
        let chosen = here > *least || (here == *least && equal > 0);
        equal -= usize::from(chosen && here == *least);
        chosen
    });
    positions
}

/// Returns an integer that orders values by magnitude.
fn magnitude(value: f32) -> u32 {
    value.abs().to_bits()
}

/// The number of bits of a magnitude that select its range:
/// the exponent, and the two highest mantissa bits.
/// So the magnitudes in a range differ by a quarter at most.
const RANGE_BITS: u32 = 10;
const RANGE_SHIFT: u32 = u32::BITS - 1 - RANGE_BITS;
const RANGES: usize = 1 << RANGE_BITS;

fn range(value: f32) -> usize {
    // Because of the remainder, the compiler knows that a table of all ranges needs no bounds check.
    (magnitude(value) >> RANGE_SHIFT) as usize % RANGES
}

/// Returns the range of the smallest of the `count` largest magnitudes.
/// It leaves few values to choose from, and takes one quick pass on all cores. A choice among all values could not use
/// all cores.
fn range_of_threshold(gradient: &[f32], count: usize) -> usize {
    let none = || vec![0_usize; RANGES];
    let fill = |mut counts: Vec<usize>, values: &[f32]| {
        values.iter().for_each(|value| counts[range(*value)] += 1);
        counts
    };
    let add = |mut counts: Vec<usize>, others: Vec<usize>| {
        counts.iter_mut().zip(others).for_each(|(count, other)| *count += other);
        counts
    };
    let counts = gradient.par_chunks(PIECE).fold(none, fill).reduce(none, add);
    let mut above = 0;
    let enough = counts.iter().rposition(|in_range| {
        above += in_range;
        above >= count
    });
    enough.unwrap_or_default()
}

/// Returns the positions of all values in the range `least` or a higher range, in ascending order.
fn not_below(gradient: &[f32], least: usize) -> Vec<u32> {
    let of_piece = |(piece, values): (usize, &[f32])| {
        let positions = values.iter().zip((piece * PIECE) as u32..);
        let positions = positions.filter(|(value, _)| range(**value) >= least).map(|(_, position)| position);
        positions.collect::<Vec<u32>>()
    };
    let pieces: Vec<Vec<u32>> = gradient.par_chunks(PIECE).enumerate().map(of_piece).collect();
    pieces.concat()
}

pub(crate) fn open(one_in: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    if one_in < LEAST_ONE_IN {
        return Err(DecodeError::Field {
            field: "how many values one is sent of",
            value: one_in.to_string(),
            rule: "2 to 65535 are possible",
        });
    }
    let count = sent(values, one_in);
    let kept = body.f32s("a value that is sent", count)?;
    let positions = Layout::new(count, values, one_in).read(&mut body)?;
    Ok(Box::new(move |out| {
        out.par_chunks_mut(PIECE).for_each(|out| out.fill(0.0));
        positions.iter().zip(kept).for_each(|(position, value)| out[position] = value);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_value_is_left_out_for_a_smaller_one_or_an_equal_one_behind_it(
            values in vec(prop_oneof![Just(0.0f32), Just(1.0), Just(-1.0), -2.0f32..2.0], 1..500),
            times in prop_oneof![9 => Just(1usize), 1 => Just(50)], count in any::<prop::sample::Index>(),
        ) {
            let gradient = values.repeat(times);
            let count = 1 + count.index(gradient.len());
            let mut positions: Vec<u32> = (0..gradient.len() as u32).collect();
            // The sort is stable, so equal magnitudes keep their order.
            positions.sort_by_key(|position| std::cmp::Reverse(magnitude(gradient[*position as usize])));
            positions.truncate(count);
            positions.sort_unstable();
            prop_assert_eq!(largest(&gradient, count), positions);
        }
    }

    #[test]
    fn of_nothing_nothing_is_the_largest() {
        assert_eq!(largest(&[], 0), []);
        assert_eq!((sent(0, 100), sent(1, 100), sent(100, 100), sent(101, 100)), (0, 1, 1, 2));
    }
}
