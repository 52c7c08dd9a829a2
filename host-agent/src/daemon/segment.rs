//! Shared memory of a training process, as the agent sees it.
//!
//! The agent reads and writes it as a file, and maps nothing: if a process shortened its segment, a mapping would end
//! the agent by SIGBUS, and so the jobs of everyone else on the host.
//!
//! A file may claim a size for which it has no memory. The agent takes memory of its own for a segment's contents, so
//! it opens only segments whose process has allocated all of their memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use bytemuck::cast_vec;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rustix::fs::OFlags;
use tonic::Status;
use tributary_api::agent::SegmentName;
use tributary_protocol::{ElementType, GradientData, Sums, Tensor};
use tributary_wire::SliceWidth;

/// The unit in which a file's blocks are counted, whatever the file system's block size.
const BLOCK_BYTES: u64 = 512;
/// The number of 16-bit floats that are widened at once after reading, and rounded at once before writing.
const CONVERTED_AT_ONCE: usize = 16 << 10;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    /// The file's device and inode, which identify it even if it is opened twice.
    identity: (u64, u64),
    bytes: u64,
}

/// Elements inside a segment, as checked by [`Segment::place`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementRange {
    offset: u64,
    count: usize,
    element_type: ElementType,
}

impl ElementRange {
    /// The number of elements.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The number of bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.count as u64 * self.element_type.bytes() as u64
    }

    /// The number of bytes that it takes to reduce them in slices of this width.
    pub(crate) fn memory_to_reduce(self, width: SliceWidth) -> u64 {
        let element_type = self.element_type;
        let reduced = Tensor { name: String::new(), element_type, len: self.count }.memory(width);
        reduced.saturating_add(CONVERTED_AT_ONCE as u64 * self.element_type.bytes() as u64)
    }
}

/// A range of bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    file: (u64, u64),
    bytes: Range<u64>,
}

impl Stretch {
    /// Whether the two have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (first, last) = (self.bytes.start.max(other.bytes.start), self.bytes.end.min(other.bytes.end));
        self.file == other.file && first < last
    }
}

impl Segment {
    /// Opens the segment that the user `owner` has made; it must have exactly this size.
    pub(crate) fn open(name: &SegmentName, owner: u32, bytes: u64) -> Result<Self, Status> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(name.path())
            .map_err(|error| open_status(name, &error))?;
        let metadata = file.metadata().map_err(|error| open_status(name, &error))?;
        // The agent may be root: the file's owner decides, not whether the agent can open it.
        if !metadata.is_file() || metadata.uid() != owner {
            return Err(Status::permission_denied(format!("segment {name} is not one of your own")));
        }
        if metadata.len() != bytes {
            let problem = format!("segment {name} has {} bytes, not {bytes}", metadata.len());
            return Err(Status::invalid_argument(problem));
        }
        let there = metadata.blocks().saturating_mul(BLOCK_BYTES);
        if there < bytes {
            return Err(Status::invalid_argument(format!(
                "segment {name} has memory for {there} of its {bytes} bytes only: reserve all of it, with fallocate()"
            )));
        }
        Ok(Self { file, identity: (metadata.dev(), metadata.ino()), bytes })
    }

    /// The bytes of the machine's shared memory that hold the elements.
    pub(crate) fn stretch(&self, place: ElementRange) -> Stretch {
        Stretch { file: self.identity, bytes: place.offset..place.offset.saturating_add(place.bytes()) }
    }

    /// The place of `count` elements from byte `offset` on; an error unless all of them are inside.
    pub(crate) fn place(
        &self,
        offset: u64,
        element_type: ElementType,
        count: u64,
    ) -> Result<ElementRange, Status> {
        let end = count.checked_mul(element_type.bytes() as u64).and_then(|bytes| bytes.checked_add(offset));
        match (end, usize::try_from(count)) {
            (Some(end), Ok(count)) if end <= self.bytes => Ok(ElementRange { offset, count, element_type }),
            _ => Err(Status::out_of_range(format!(
                "{count} elements from byte {offset} on are not all inside the segment of {} bytes",
                self.bytes
            ))),
        }
    }

    /// A copy of the elements in `vector`, whose contents are overwritten; 16-bit floats are widened.
    ///
    /// # Errors
    /// The segment has become shorter, or there is no memory for the copy.
    pub(crate) fn read(&self, place: ElementRange, vector: Vec<u32>) -> io::Result<GradientData> {
        Ok(match place.element_type {
            ElementType::F32 => GradientData::F32(self.read_elements(place, cast_vec(vector))?),
            ElementType::F16 => GradientData::F16(self.read_widened::<f16>(place, cast_vec(vector))?),
            ElementType::BF16 => GradientData::BF16(self.read_widened::<bf16>(place, cast_vec(vector))?),
            ElementType::I32 => GradientData::I32(self.read_elements(place, cast_vec(vector))?),
        })
    }

    /// As [`read`](Self::read), for a type known to be the place's.
    pub(crate) fn read_elements<T: bytemuck::Pod>(
        &self,
        place: ElementRange,
        mut elements: Vec<T>,
    ) -> io::Result<Vec<T>> {
        resize(&mut elements, place.count)?;
        self.file.read_exact_at(bytemuck::cast_slice_mut(&mut elements), place.offset)?;
        Ok(elements)
    }

    fn read_widened<T: bytemuck::Pod>(&self, place: ElementRange, mut wide: Vec<f32>) -> io::Result<Vec<f32>>
    where
        [T]: HalfFloatSliceExt,
    {
        let mut narrow = [T::zeroed(); CONVERTED_AT_ONCE];
        resize(&mut wide, place.count)?;
        let mut offset = place.offset;
        for wide in wide.chunks_mut(CONVERTED_AT_ONCE) {
            let narrow = &mut narrow[..wide.len()];
            self.file.read_exact_at(bytemuck::cast_slice_mut(narrow), offset)?;
            narrow.convert_to_f32_slice(wide);
            offset += size_of_val(narrow) as u64;
        }
        Ok(wide)
    }

    /// Writes as many sums as the place has elements, rounded to the elements' type.
    ///
    /// # Errors
    /// As [`write_elements`](Self::write_elements).
    pub(crate) fn write(&self, place: ElementRange, sums: &Sums) -> io::Result<()> {
        match (sums, place.element_type) {
            (Sums::F32(sums), ElementType::F16) => self.write_rounded(place, sums, f16::from_f32),
            (Sums::F32(sums), ElementType::BF16) => self.write_rounded(place, sums, bf16::from_f32),
            (Sums::F32(sums), ElementType::F32 | ElementType::I32) => self.write_elements(place, sums),
            (Sums::I32(sums), _) => self.write_elements(place, sums),
        }
    }

    fn write_rounded<T: bytemuck::Pod>(
        &self,
        place: ElementRange,
        sums: &[f32],
        round: impl Fn(f32) -> T,
    ) -> io::Result<()> {
        let mut rounded = Vec::with_capacity(CONVERTED_AT_ONCE);
        let mut offset = place.offset;
        for sums in sums.chunks(CONVERTED_AT_ONCE) {
            rounded.clear();
            rounded.extend(sums.iter().map(|sum| round(*sum)));
            self.write_elements(ElementRange { offset, ..place }, &rounded)?;
            offset += size_of_val(rounded.as_slice()) as u64;
        }
        Ok(())
    }

    /// Writes as many elements of the place's type as it has.
    ///
    /// # Errors
    /// The segment has become shorter, or there is no memory for it.
    pub(crate) fn write_elements<T: bytemuck::Pod>(
        &self,
        place: ElementRange,
        elements: &[T],
    ) -> io::Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        // Writing would lengthen the file again, with memory that its process did not allocate.
        if self.file.metadata()?.len() < place.offset.saturating_add(bytes.len() as u64) {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its process has made it shorter"));
        }
        self.file.write_all_at(bytes, place.offset)
    }
}

/// Resizes a vector; an error if the system has no memory for it.
fn resize<T: bytemuck::Pod>(vector: &mut Vec<T>, len: usize) -> io::Result<()> {
    vector.try_reserve_exact(len.saturating_sub(vector.len()))?;
    vector.resize(len, T::zeroed());
    Ok(())
}

fn open_status(name: &SegmentName, error: &io::Error) -> Status {
    let message = format!("cannot open segment {name}: {error}");
    match error.kind() {
        io::ErrorKind::NotFound => Status::not_found(message),
        io::ErrorKind::PermissionDenied => Status::permission_denied(message),
        _ => Status::invalid_argument(message),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The file of a segment, removed with this value.
    struct Made(SegmentName, #[allow(dead_code, reason = "holds the lock")] File);

    impl Made {
        fn new(content: &[u8]) -> Self {
            let name = SegmentName::new(rand::random());
            let file = File::create_new(name.path()).unwrap();
            file.lock().unwrap();
            fs::write(name.path(), content).unwrap();
            Self(name, file)
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            fs::remove_file(self.0.path()).unwrap();
        }
    }

    fn own_uid() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn elements_are_read_and_sums_written_in_their_place() {
        let content = [1.0_f32, 2.0, 3.0, 4.0];
        let made = Made::new(bytemuck::cast_slice(&content));
        let segment = Segment::open(&made.0, own_uid(), 16).unwrap();
        let place = segment.place(4, ElementType::F32, 2).unwrap();
        assert_eq!(segment.read(place, Vec::new()).unwrap(), GradientData::F32(vec![2.0, 3.0]));
        assert_eq!(segment.read(place, vec![7; 2]).unwrap(), GradientData::F32(vec![2.0, 3.0]));
        segment.write(place, &Sums::F32(vec![20.0, 30.0])).unwrap();
        let expected = [1.0_f32, 20.0, 30.0, 4.0];
        assert_eq!(fs::read(made.0.path()).unwrap(), bytemuck::cast_slice::<f32, u8>(&expected));
    }

    #[test]
    fn sums_of_narrow_floats_are_rounded_to_them() {
        let made = Made::new(&[0; 4]);
        let segment = Segment::open(&made.0, own_uid(), 4).unwrap();
        for (element_type, expected) in [
            (ElementType::F16, GradientData::F16(vec![f16::from_f32(0.1).to_f32(), 3.0])),
            (ElementType::BF16, GradientData::BF16(vec![bf16::from_f32(0.1).to_f32(), 3.0])),
        ] {
            let place = segment.place(0, element_type, 2).unwrap();
            segment.write(place, &Sums::F32(vec![0.1, 3.0])).unwrap();
            assert_eq!(segment.read(place, Vec::new()).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_not_inside_is_refused() {
        let made = Made::new(&[0; 16]);
        let segment = Segment::open(&made.0, own_uid(), 16).unwrap();
        for (offset, count) in [(0, 5), (4, 4), (16, 1), (u64::MAX, 1), (0, u64::MAX), (8, u64::MAX / 4)] {
            assert!(segment.place(offset, ElementType::I32, count).is_err(), "{offset} {count}");
        }
        assert!(segment.place(16, ElementType::I32, 0).is_ok());
    }

    #[test]
    fn places_overlap_that_have_bytes_in_common_however_they_were_opened() {
        let (made, other) = (Made::new(&[0; 16]), Made::new(&[0; 16]));
        let open = |made: &Made| Segment::open(&made.0, own_uid(), 16).unwrap();
        let (segment, again, other) = (open(&made), open(&made), open(&other));
        let stretch = |segment: &Segment, offset, count| {
            segment.stretch(segment.place(offset, ElementType::F16, count).unwrap())
        };
        let own = stretch(&segment, 4, 2);
        for (offset, count, overlaps) in
            [(0, 2, false), (0, 3, true), (6, 1, true), (8, 4, false), (5, 0, false)]
        {
            assert_eq!(own.overlaps(&stretch(&again, offset, count)), overlaps, "{offset} {count}");
        }
        assert!(own.overlaps(&own) && !own.overlaps(&stretch(&other, 4, 2)));
    }

    #[test]
    fn anothers_file_and_another_size_are_refused() {
        let made = Made::new(&[0; 16]);
        let code = |result: Result<Segment, Status>| result.unwrap_err().code();
        let other = own_uid() + 1;
        assert_eq!(code(Segment::open(&made.0, other, 16)), tonic::Code::PermissionDenied);
        assert_eq!(code(Segment::open(&made.0, own_uid(), 17)), tonic::Code::InvalidArgument);
        let missing = SegmentName::new(rand::random());
        assert_eq!(code(Segment::open(&missing, own_uid(), 16)), tonic::Code::NotFound);
    }

    #[test]
    fn a_link_to_another_file_is_not_followed() {
        let made = Made::new(&[0; 16]);
        let alias = SegmentName::new(rand::random());
        std::os::unix::fs::symlink(made.0.path(), alias.path()).unwrap();
        let refused = Segment::open(&alias, own_uid(), 16);
        fs::remove_file(alias.path()).unwrap();
        assert!(refused.is_err());
    }

    #[test]
    fn a_segment_that_became_shorter_is_an_error_and_nothing_worse() {
        let made = Made::new(&[0; 16]);
        let segment = Segment::open(&made.0, own_uid(), 16).unwrap();
        let place = segment.place(0, ElementType::I32, 4).unwrap();
        fs::write(made.0.path(), [0; 8]).unwrap();
        assert_eq!(segment.read(place, Vec::new()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let sums = Sums::I32(vec![1; 4]);
        assert_eq!(segment.write(place, &sums).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(fs::read(made.0.path()).unwrap(), [0; 8]);
    }

    #[test]
    fn a_size_without_memory_behind_it_is_refused() {
        let made = Made::new(&[]);
        File::options().write(true).open(made.0.path()).unwrap().set_len(1 << 48).unwrap();
        let refused = Segment::open(&made.0, own_uid(), 1 << 48).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().contains("fallocate"), "{refused}");
    }

    #[test]
    fn any_number_of_sums_is_rounded_and_widened_again() {
        let count = 2 * CONVERTED_AT_ONCE + 3;
        let made = Made::new(&vec![0; 2 + 2 * count]);
        let segment = Segment::open(&made.0, own_uid(), 2 + 2 * count as u64).unwrap();
        let place = segment.place(2, ElementType::BF16, count as u64).unwrap();
        let sums: Vec<f32> = (0..count).map(|at| at as f32).collect();
        segment.write(place, &Sums::F32(sums.clone())).unwrap();
        let rounded = sums.into_iter().map(|sum| bf16::from_f32(sum).to_f32()).collect();
        assert_eq!(segment.read(place, Vec::new()).unwrap(), GradientData::BF16(rounded));
    }
}
