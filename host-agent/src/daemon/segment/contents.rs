//! Reading elements from a segment, and writing sums to it.

use std::io;

use bytemuck::{Pod, cast_slice, cast_slice_mut, cast_vec};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use tributary_protocol::{Bounds, ElementType, GradientData, Sums};
use tributary_wire::SliceWidth;

use super::{ElementRange, Segment, vector};

/// The number of elements that are copied at once. The next processing step then finds them in the
/// processor's cache. It is a whole number of slices of every width.
pub(super) const AT_ONCE: usize = 4 << 10;

const _: () = assert!(AT_ONCE.is_multiple_of(SliceWidth::WIDEST.values()));

/// Returns the bytes that copies of this element type take in addition to the elements.
pub(super) fn memory(element_type: ElementType) -> usize {
    AT_ONCE * element_type.bytes()
}

impl Segment {
    /// Returns a copy of the elements, and the bounds of their slices of width `width`. Copies 32-bit
    /// elements to `vector` if it has the right length. Widens 16-bit floats.
    ///
    /// # Errors
    /// Returns an error if the process has shortened the segment, or if the copy cannot be allocated.
    pub(crate) fn read_measured(
        &self,
        place: ElementRange,
        vector: Vec<u32>,
        width: SliceWidth,
    ) -> io::Result<(GradientData, Bounds)> {
        let mut bounds = Bounds::new(width, place.element_type, place.count)?;
        let floats = |floats: &[f32]| bounds.add_floats(floats);
        let of_floats = |floats: Vec<f32>| GradientData::of_floats(place.element_type, floats);
        let data = match place.element_type {
            ElementType::F32 | ElementType::F32Exact => {
                of_floats(self.read(place, cast_vec(vector), floats)?)
            }
            ElementType::F16 | ElementType::F16Paired => {
                of_floats(self.read_widened::<f16>(place, cast_vec(vector), floats)?)
            }
            ElementType::BF16 | ElementType::BF16Paired => {
                of_floats(self.read_widened::<bf16>(place, cast_vec(vector), floats)?)
            }
            ElementType::F64 => GradientData::F64(
                self.read(place, Vec::new(), |doubles: &[f64]| bounds.add_doubles(doubles))?,
            ),
            ElementType::I64 => {
                let integers = |integers: &[i64]| bounds.add_long_integers(integers);
                GradientData::I64(self.read(place, Vec::new(), integers)?)
            }
            ElementType::I32 => {
                let integers = |integers: &[i32]| bounds.add_integers(integers);
                GradientData::I32(self.read(place, cast_vec(vector), integers)?)
            }
        };
        Ok((data, bounds))
    }

    /// Returns a copy of the elements, which must have the type `T`.
    ///
    /// # Errors
    /// The errors of [`read_measured`](Self::read_measured).
    pub(crate) fn read_elements<T: Pod>(&self, place: ElementRange) -> io::Result<Vec<T>> {
        self.read(place, Vec::new(), |_| ())
    }

    /// Returns the words of a broadcast: a copy of the elements if the root `is_here`, otherwise any words.
    /// Uses `vector` if it has the right length.
    ///
    /// # Errors
    /// The errors of [`read_measured`](Self::read_measured).
    pub(crate) fn words(&self, place: ElementRange, vector: Vec<u32>, is_here: bool) -> io::Result<Vec<i32>> {
        let vector = cast_vec(vector);
        if is_here { self.read(place, vector, |_| ()) } else { of_length(vector, place.count) }
    }

    fn read<T: Pod>(
        &self,
        place: ElementRange,
        vector: Vec<T>,
        mut measure: impl FnMut(&[T]),
    ) -> io::Result<Vec<T>> {
        let mut elements = of_length(vector, place.count)?;
        let (mut offset, is_there) = (place.offset, self.is_there(place));
        for elements in elements.chunks_mut(AT_ONCE) {
            self.copy(is_there, offset, elements)?;
            measure(elements);
            offset += size_of_val(elements);
        }
        self.check(place)?;
        Ok(elements)
    }

    fn read_widened<T: Pod>(
        &self,
        place: ElementRange,
        vector: Vec<f32>,
        mut measure: impl FnMut(&[f32]),
    ) -> io::Result<Vec<f32>>
    where
        [T]: HalfFloatSliceExt,
    {
        let mut narrow = [0; AT_ONCE];
        let mut wide = of_length(vector, place.count)?;
        let (mut offset, is_there) = (place.offset, self.is_there(place));
        for wide in wide.chunks_mut(AT_ONCE) {
            self.copy_widened::<T>(is_there, offset, &mut narrow, wide)?;
            measure(wide);
            offset += wide.len() * size_of::<T>();
        }
        self.check(place)?;
        Ok(wide)
    }

    /// Copies up to [`AT_ONCE`] 16-bit floats to `to`, by way of `narrow`; otherwise like
    /// [`copy`](Self::copy).
    pub(super) fn copy_widened<T: Pod>(
        &self,
        is_there: bool,
        offset: usize,
        narrow: &mut [u16; AT_ONCE],
        to: &mut [f32],
    ) -> io::Result<()>
    where
        [T]: HalfFloatSliceExt,
    {
        let narrow: &mut [T] = cast_slice_mut(narrow.get_mut(..to.len()).unwrap_or_default());
        self.copy(is_there, offset, narrow)?;
        narrow.convert_to_f32_slice(to);
        Ok(())
    }

    /// Returns true if all elements of the range are in memory.
    pub(super) fn is_there(&self, place: ElementRange) -> bool {
        self.mapping.is_there(place.offset..place.offset + place.bytes())
    }

    /// Copies elements to `to`; `is_there` is true if all of them are in memory.
    pub(super) fn copy<T: Pod>(&self, is_there: bool, offset: usize, to: &mut [T]) -> io::Result<()> {
        match is_there {
            true => self.mapping.read(offset, cast_slice_mut(to)),
            false => self.mapping.read_by_calls(offset, cast_slice_mut(to)),
        }
    }

    /// Writes the sums to the elements of `place`, rounded to the elements' type. There must be one sum
    /// for each element.
    ///
    /// # Errors
    /// The errors of [`write_elements`](Self::write_elements).
    pub(crate) fn write(&self, place: ElementRange, sums: &Sums) -> io::Result<()> {
        match (sums, place.element_type) {
            (Sums::F32(sums), ElementType::F16 | ElementType::F16Paired) => {
                self.write_rounded(place, sums, f16::from_f32)
            }
            (Sums::F32(sums), ElementType::BF16 | ElementType::BF16Paired) => {
                self.write_rounded(place, sums, bf16::from_f32)
            }
            (Sums::F32(sums), _) => self.write_elements(place, sums),
            (Sums::F64(sums), _) => self.write_elements(place, sums),
            (Sums::I32(sums), _) => self.write_elements(place, sums),
            (Sums::I64(sums), _) => self.write_elements(place, sums),
        }
    }

    fn write_rounded<T: Pod>(
        &self,
        place: ElementRange,
        sums: &[f32],
        round: impl Fn(f32) -> T,
    ) -> io::Result<()> {
        self.check(place)?;
        let mut rounded = Vec::with_capacity(AT_ONCE);
        let mut offset = place.offset;
        for sums in sums.chunks(AT_ONCE) {
            rounded.clear();
            rounded.extend(sums.iter().map(|sum| round(*sum)));
            self.mapping.write(offset, cast_slice(&rounded))?;
            offset += size_of_val(rounded.as_slice());
        }
        Ok(())
    }

    /// Writes elements to `place`. Their type and number must be those of the place.
    ///
    /// # Errors
    /// Returns an error if the process has shortened the segment, or if memory for the segment cannot be allocated.
    pub(crate) fn write_elements<T: Pod>(&self, place: ElementRange, elements: &[T]) -> io::Result<()> {
        self.check(place)?;
        self.mapping.write(place.offset, cast_slice(elements))
    }
}

/// Returns `vector` if it has `len` elements, otherwise a new vector.
pub(super) fn of_length<T: Pod>(vector: Vec<T>, len: usize) -> io::Result<Vec<T>> {
    if vector.len() == len { Ok(vector) } else { vector::zeros(len) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::{Made, open};
    use super::*;

    const WIDTH: SliceWidth = SliceWidth::ETHERNET;

    fn read(segment: &Segment, place: ElementRange, vector: Vec<u32>) -> io::Result<GradientData> {
        Ok(segment.read_measured(place, vector, WIDTH)?.0)
    }

    #[test]
    fn elements_are_read_and_sums_written_in_their_place() {
        let content = [1.0_f32, 2.0, 3.0, 4.0];
        let made = Made::new(cast_slice(&content));
        let segment = open(&made, 16).unwrap();
        let place = segment.place(4, ElementType::F32, 2).unwrap();
        assert_eq!(read(&segment, place, Vec::new()).unwrap(), GradientData::F32(vec![2.0, 3.0]));
        assert_eq!(read(&segment, place, vec![7; 2]).unwrap(), GradientData::F32(vec![2.0, 3.0]));
        segment.write(place, &Sums::F32(vec![20.0, 30.0])).unwrap();
        let expected = [1.0_f32, 20.0, 30.0, 4.0];
        assert_eq!(fs::read(made.0.path()).unwrap(), cast_slice::<f32, u8>(&expected));
    }

    #[test]
    fn sums_of_narrow_floats_are_rounded_to_them() {
        let made = Made::new(&[0; 4]);
        let segment = open(&made, 4).unwrap();
        for (element_type, expected) in [
            (ElementType::F16, GradientData::F16(vec![f16::from_f32(0.1).to_f32(), 3.0])),
            (ElementType::BF16, GradientData::BF16(vec![bf16::from_f32(0.1).to_f32(), 3.0])),
        ] {
            let place = segment.place(0, element_type, 2).unwrap();
            segment.write(place, &Sums::F32(vec![0.1, 3.0])).unwrap();
            assert_eq!(read(&segment, place, Vec::new()).unwrap(), expected);
        }
    }

    #[test]
    fn a_segment_that_became_shorter_is_an_error_and_nothing_worse() {
        let made = Made::new(&[0; 16]);
        let segment = open(&made, 16).unwrap();
        let place = segment.place(0, ElementType::I32, 4).unwrap();
        fs::write(made.0.path(), [0; 8]).unwrap();
        assert_eq!(read(&segment, place, Vec::new()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let sums = Sums::I32(vec![1; 4]);
        assert_eq!(segment.write(place, &sums).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(fs::read(made.0.path()).unwrap(), [0; 8]);
    }

    #[test]
    fn any_number_of_sums_is_rounded_and_widened_again() {
        let count = 2 * AT_ONCE + 3;
        let made = Made::new(&vec![0; 2 + 2 * count]);
        let segment = open(&made, 2 + 2 * count as u64).unwrap();
        let place = segment.place(2, ElementType::BF16, count as u64).unwrap();
        let sums: Vec<f32> = (0..count).map(|at| at as f32).collect();
        segment.write(place, &Sums::F32(sums.clone())).unwrap();
        let rounded = sums.into_iter().map(|sum| bf16::from_f32(sum).to_f32()).collect();
        assert_eq!(read(&segment, place, Vec::new()).unwrap(), GradientData::BF16(rounded));
    }

    #[test]
    fn what_is_read_is_measured_piece_by_piece() {
        let count = 2 * AT_ONCE + 300;
        let made = Made::new(&vec![0; 4 * count]);
        let segment = open(&made, 4 * count as u64).unwrap();
        let numbers: Vec<i32> = (0..count as i32).map(|at| at - 20_000).collect();
        for element_type in [ElementType::I32, ElementType::F32, ElementType::F16, ElementType::BF16] {
            let place = segment.place(0, element_type, count as u64).unwrap();
            let mut expected = Bounds::new(WIDTH, element_type, count).unwrap();
            match element_type {
                ElementType::I32 => segment.write(place, &Sums::I32(numbers.clone())).unwrap(),
                _ => {
                    let floats = numbers.iter().map(|number| *number as f32).collect();
                    segment.write(place, &Sums::F32(floats)).unwrap();
                }
            }
            let (data, bounds) = segment.read_measured(place, Vec::new(), WIDTH).unwrap();
            match &data {
                GradientData::I32(integers) => expected.add_integers(integers),
                GradientData::F32(floats) | GradientData::F16(floats) | GradientData::BF16(floats) => {
                    expected.add_floats(floats);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(bounds, expected, "{element_type}");
        }
    }
}
