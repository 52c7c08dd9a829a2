//! Masks that hide the values of a confidential job from switches, the server and observers.
//!
//! The members stand in a row. Each member adds to its values, mod 2^32, a stream of its own, and subtracts the stream
//! of the member behind it; the last member has no member behind it. So the sum of all members contains only the first
//! member's stream, and every member subtracts that stream. Any other sum contains other streams. All streams look like
//! noise without the job's secret. They come from that secret, by AES in counter mode, afresh for each generation,
//! operation and slice. Sequence numbers repeat after 2^32 slices; the numbers of operations do not repeat.
//!
//! In HEAR ("HEAR: Homomorphically Encrypted Allreduce", SC '23) the row is closed to a ring, and the sum has no mask.
//! But a member may leave while a slice is under way. An observer of both sums, the sum of all members and the sum of
//! the remaining members, could then subtract them and learn the contribution of the member that left.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt};
use tributary_wire::{JobId, JobSecret, Rank, Seq, ValuesView};

use crate::operation::OperationId;
use crate::tags::cipher;

/// Bytes of one block of a stream.
const BLOCK_BYTES: usize = 16;
/// The number of blocks that are encrypted together.
const AT_ONCE: usize = 8;
const PART_BYTES: usize = AT_ONCE * BLOCK_BYTES;

/// The identity of a slice whose values are masked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaskedSlice {
    /// The data-plane id of the generation whose members send the slice.
    pub(crate) job: JobId,
    /// The operation that the slice belongs to. Only the low 48 bits of its number distinguish streams.
    /// At a million operations a second, these bits repeat after nine years.
    pub(crate) operation: OperationId,
    /// The number of the slice.
    pub(crate) seq: Seq,
}

/// The key from which all members' streams are derived.
#[derive(Clone)]
pub(crate) struct Masks(Aes128);

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Masks(…)")
    }
}

impl Masks {
    pub(crate) fn new(secret: &JobSecret) -> Self {
        Self(cipher(secret, "masks of values"))
    }

    /// Masks the values of the member `own`; `behind` is the member behind it in the row, if it has one.
    pub(crate) fn hide(&self, slice: MaskedSlice, own: Rank, behind: Option<Rank>, values: &mut [i32]) {
        self.combine(slice, own, values, i32::wrapping_add);
        if let Some(behind) = behind {
            self.combine(slice, behind, values, i32::wrapping_sub);
        }
    }

    /// Removes the mask from a sum of all members, and writes the sum to `out`, big-endian.
    /// `first` is the first member of the row.
    pub(crate) fn reveal(&self, slice: MaskedSlice, first: Rank, hidden: ValuesView<'_>, out: &mut [u8]) {
        let parts = out.chunks_mut(PART_BYTES).zip(hidden.bytes().chunks(PART_BYTES));
        for ((out, hidden), stream) in parts.zip(self.stream(slice, first)) {
            let words = out.as_chunks_mut().0.iter_mut().zip(hidden.as_chunks().0);
            for ((to, value), mask) in words.zip(masks_of(&stream)) {
                *to = i32::from_be_bytes(*value).wrapping_sub(mask).to_be_bytes();
            }
        }
    }

    fn combine(&self, slice: MaskedSlice, rank: Rank, values: &mut [i32], combine: impl Fn(i32, i32) -> i32) {
        let parts = values.chunks_mut(PART_BYTES / size_of::<i32>());
        for (values, stream) in parts.zip(self.stream(slice, rank)) {
            values.iter_mut().zip(masks_of(&stream)).for_each(|(value, mask)| *value = combine(*value, mask));
        }
    }

    /// Returns the stream of the member `rank` for a slice, in parts of `PART_BYTES` bytes.
    fn stream(&self, slice: MaskedSlice, rank: Rank) -> impl Iterator<Item = [u8; PART_BYTES]> {
        let MaskedSlice { job, operation, seq } = slice;
        let high_word = u64::from(job.get()) << 48 | u64::from(seq.0) << 16 | u64::from(rank.get());
        (0..).step_by(AT_ONCE).map(move |first: u64| {
            let mut blocks = [Array::from([0; BLOCK_BYTES]); AT_ONCE];
            for (block, counter) in blocks.iter_mut().zip(first..) {
                let (high, low) = block.split_at_mut(BLOCK_BYTES / 2);
                high.copy_from_slice(&high_word.to_be_bytes());
                low.copy_from_slice(&(operation.0 << 16 | counter).to_be_bytes());
            }
            self.0.encrypt_blocks(&mut blocks);
            let mut part = [0; PART_BYTES];
            part.as_chunks_mut::<BLOCK_BYTES>()
                .0
                .iter_mut()
                .zip(blocks)
                .for_each(|(to, block)| *to = block.into());
            part
        })
    }
}

/// Returns a part of a stream as 32-bit numbers.
fn masks_of(part: &[u8; PART_BYTES]) -> impl Iterator<Item = i32> {
    part.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: usize = 256;

    fn masks(secret: u8) -> Masks {
        Masks::new(&JobSecret::new([secret; JobSecret::BYTES]))
    }

    fn slice(job: u16, seq: u32) -> MaskedSlice {
        MaskedSlice { job: JobId::new(job).unwrap(), operation: OperationId(3), seq: Seq(seq) }
    }

    /// Returns the masked values of one member for a slice.
    fn hidden(masks: &Masks, slice: MaskedSlice, own: u16, behind: Option<u16>, value: i32) -> [i32; VALUES] {
        let mut values = [value; VALUES];
        masks.hide(slice, Rank::new(own), behind.map(Rank::new), &mut values);
        values
    }

    /// Returns the masked values of all members of a row. The value of each member is its rank.
    fn row(masks: &Masks, slice: MaskedSlice, ranks: &[u16]) -> Vec<[i32; VALUES]> {
        let behind = ranks.iter().skip(1).copied().map(Some).chain([None]);
        let pairs = ranks.iter().zip(behind);
        pairs.map(|(&own, behind)| hidden(masks, slice, own, behind, own.into())).collect()
    }

    fn sum(of: &[[i32; VALUES]]) -> [i32; VALUES] {
        of.iter().fold([0; VALUES], |mut sum, values| {
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
            sum
        })
    }

    /// Returns true if the values look like noise: neighbours differ, and no value is small.
    fn is_noise(values: &[i32; VALUES]) -> bool {
        let equal = values.iter().zip(&values[1..]).filter(|(a, b)| a == b).count();
        equal == 0 && values.iter().all(|value| value.unsigned_abs() > 1000)
    }

    #[test]
    fn members_see_the_sum_and_nobody_else_sees_any() {
        let (masks, slice) = (masks(1), slice(7, 9));
        let row = row(&masks, slice, &[0, 3, 4]);
        for part in [&row[..], &row[..1], &row[1..2], &row[..2], &row[1..]] {
            assert!(is_noise(&sum(part)));
        }
        let bytes = tributary_wire::values::to_bytes(&sum(&row));
        let mut out = [0; 4 * VALUES];
        masks.reveal(slice, Rank::new(0), ValuesView::new(&bytes), &mut out);
        assert!(ValuesView::new(&out).iter().all(|value| value == 3 + 4));
    }

    #[test]
    fn what_a_member_gave_that_left_is_not_the_difference_of_sums() {
        let masks = masks(1);
        let all = sum(&row(&masks, slice(7, 9), &[0, 3, 4]));
        for those_left in [[0, 3], [0, 4], [3, 4]] {
            let fewer = sum(&row(&masks, slice(8, 9), &those_left));
            let difference = std::array::from_fn(|at| all[at].wrapping_sub(fewer[at]));
            assert!(is_noise(&difference), "{those_left:?}");
        }
    }

    #[test]
    fn masks_differ_for_each_secret_generation_operation_slice_and_member() {
        let operation = |number| MaskedSlice { operation: OperationId(number), ..slice(7, 9) };
        let all = [
            hidden(&masks(1), slice(7, 9), 0, None, 0),
            hidden(&masks(2), slice(7, 9), 0, None, 0),
            hidden(&masks(1), slice(8, 9), 0, None, 0),
            hidden(&masks(1), slice(7, 10), 0, None, 0),
            hidden(&masks(1), operation(4), 0, None, 0),
            hidden(&masks(1), operation(3 + (1 << 32)), 0, None, 0),
            hidden(&masks(1), slice(7, 9), 1, None, 0),
            hidden(&masks(1), slice(7, 9), 0, Some(1), 0),
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert!(one.iter().zip(other).all(|(a, b)| a != b));
            }
        }
    }

    #[test]
    fn logs_do_not_contain_the_key() {
        assert_eq!(format!("{:?}", masks(1)), "Masks(…)");
    }
}
