//! Shared memory of a training process, which the agent maps.
//!
//! The agent copies elements out of the segment and sums into it. The segment's process may modify it at any time. Its
//! writes then change only its own sums, and if it shortens the segment, only its own all-reduces fail.
//!
//! A file may claim a size for which it has no memory. Reading such a file would make the agent allocate memory, so the
//! agent opens only segments whose process has allocated all of the memory.

mod bus_error;
mod contents;
mod joint;
mod mapping;
mod vector;

use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::Arc;

use rustix::fs::OFlags;
use tonic::Status;
use tributary_api::agent::SegmentName;
use tributary_protocol::{Collective, ElementType, Tensor};
use tributary_wire::SliceWidth;

pub(crate) use self::joint::{SegmentPart, SummedParts, can_sum, read_each, sum};
use self::mapping::{Identity, Mapping, MappingError};
use super::account::Account;
use super::budget::Permit;

/// The unit in which the system counts a file's blocks. It does not depend on the file system's block
/// size.
const BLOCK_BYTES: u64 = 512;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    mapping: Arc<Mapping>,
    identity: Identity,
    /// The permit for the file's descriptor. It is returned when no operation uses the segment any more,
    /// possibly after the process has closed the segment.
    _descriptor: Permit,
}

/// Elements inside a segment, as checked by [`Segment::place`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementRange {
    offset: usize,
    count: usize,
    element_type: ElementType,
}

impl ElementRange {
    /// Returns the number of elements.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Returns the type of the elements.
    pub(crate) fn element_type(self) -> ElementType {
        self.element_type
    }

    /// Returns the bytes of memory that each further part of a contribution to these elements' sum needs.
    pub(crate) fn memory_of_part(self) -> u64 {
        self.tensor().memory_of_part()
    }

    /// Returns the range as a tensor without a name.
    pub(crate) fn tensor(self) -> Tensor {
        Tensor {
            name: String::new(),
            element_type: self.element_type,
            len: self.count,
            collective: Collective::AllReduce,
        }
    }

    /// Returns the elements from number `range.start` to `range.end`.
    pub(crate) fn within(self, range: &Range<usize>) -> Self {
        let offset = self.offset + range.start * self.element_type.bytes();
        Self { offset, count: range.len(), ..self }
    }

    /// Returns the number of bytes of the elements.
    pub(crate) fn bytes(self) -> usize {
        self.count * self.element_type.bytes()
    }

    /// Returns the bytes of memory that the agent needs to reduce the elements in slices of width
    /// `width`.
    pub(crate) fn memory_to_reduce(self, width: SliceWidth) -> u64 {
        self.tensor().memory(width).saturating_add(contents::memory(self.element_type) as u64)
    }
}

/// A range of bytes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    file: Identity,
    bytes: Range<usize>,
}

impl Stretch {
    /// Returns true if the two stretches have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (first, last) = (self.bytes.start.max(other.bytes.start), self.bytes.end.min(other.bytes.end));
        self.file == other.file && first < last
    }
}

impl Segment {
    /// Opens a segment that the account's user has created. The segment must have exactly `bytes` bytes.
    pub(crate) fn open(name: &SegmentName, account: &Account, bytes: u64) -> Result<Self, Status> {
        let descriptor = account.descriptors(1)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(name.path())
            .map_err(|error| open_status(name, &error))?;
        let metadata = file.metadata().map_err(|error| open_status(name, &error))?;
        // The agent may run as root and could then open other users' files, so it checks the file's owner.
        if !metadata.is_file() || metadata.uid() != account.user() {
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
        let whole = usize::try_from(bytes).map_err(|error| Status::out_of_range(error.to_string()))?;
        let identity = (metadata.dev(), metadata.ino());
        let mapping = Mapping::of(file, (account.user(), identity), whole, || account.mapping(bytes))
            .map_err(|error| match error {
                MappingError::Limit(error) => error.into(),
                MappingError::System(error) => {
                    Status::resource_exhausted(format!("cannot map segment {name}: {error}"))
                }
            })?;
        Ok(Self { mapping, identity, _descriptor: descriptor })
    }

    /// Returns the range of the file's bytes that hold the elements.
    pub(crate) fn stretch(&self, place: ElementRange) -> Stretch {
        Stretch { file: self.identity, bytes: place.offset..place.offset + place.bytes() }
    }

    /// Returns the range of `count` elements from byte `offset` on. Returns an error unless all of them
    /// are inside the segment.
    pub(crate) fn place(
        &self,
        offset: u64,
        element_type: ElementType,
        count: u64,
    ) -> Result<ElementRange, Status> {
        let bytes = count.checked_mul(element_type.bytes() as u64);
        let end = bytes.and_then(|bytes| bytes.checked_add(offset)).and_then(|end| usize::try_from(end).ok());
        if end.is_none_or(|end| end > self.mapping.len()) {
            return Err(Status::out_of_range(format!(
                "{count} elements from byte {offset} on are not all inside the segment of {} bytes",
                self.mapping.len()
            )));
        }
        // Neither value is larger than `end`, so the conversions lose nothing.
        Ok(ElementRange { offset: offset as usize, count: count as usize, element_type })
    }

    /// Checks that the segment still has all bytes of the range.
    fn check(&self, place: ElementRange) -> io::Result<()> {
        self.mapping.check(place.offset + place.bytes())
    }
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
    use std::fs::{self, File};

    use super::super::budget::Budget;
    use super::super::limits::Limits;
    use super::*;

    /// The file of a segment. Dropping this value removes the file.
    pub(super) struct Made(pub(super) SegmentName, #[allow(dead_code, reason = "holds the lock")] File);

    impl Made {
        pub(in super::super) fn new(content: &[u8]) -> Self {
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

    /// Opens the segment for a process of `user`.
    fn open_as(user: u32, name: &SegmentName, bytes: u64) -> Result<Segment, Status> {
        let budget = Budget::new(Limits { mapped_bytes: u64::MAX, ..Limits::of_this_machine() });
        Segment::open(name, &Account::open(&budget, user).unwrap(), bytes)
    }

    /// Opens the segment for a process of the user that has created it.
    pub(super) fn open(made: &Made, bytes: u64) -> Result<Segment, Status> {
        open_as(own_uid(), &made.0, bytes)
    }

    fn own_uid() -> u32 {
        rustix::process::getuid().as_raw()
    }

    #[test]
    fn what_is_not_inside_is_refused() {
        let made = Made::new(&[0; 16]);
        let segment = open(&made, 16).unwrap();
        for (offset, count) in [(0, 5), (4, 4), (16, 1), (u64::MAX, 1), (0, u64::MAX), (8, u64::MAX / 4)] {
            assert!(segment.place(offset, ElementType::I32, count).is_err(), "{offset} {count}");
        }
        assert!(segment.place(16, ElementType::I32, 0).is_ok());
    }

    #[test]
    fn places_overlap_that_have_bytes_in_common_however_they_were_opened() {
        let (made, other) = (Made::new(&[0; 16]), Made::new(&[0; 16]));
        let open = |made: &Made| open(made, 16).unwrap();
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
    fn a_foreign_file_and_another_size_are_refused() {
        let made = Made::new(&[0; 16]);
        let code = |result: Result<Segment, Status>| result.unwrap_err().code();
        let other = own_uid() + 1;
        assert_eq!(code(open_as(other, &made.0, 16)), tonic::Code::PermissionDenied);
        assert_eq!(code(open(&made, 17)), tonic::Code::InvalidArgument);
        let missing = SegmentName::new(rand::random());
        assert_eq!(code(open_as(own_uid(), &missing, 16)), tonic::Code::NotFound);
    }

    #[test]
    fn a_link_to_another_file_is_not_followed() {
        let made = Made::new(&[0; 16]);
        let alias = SegmentName::new(rand::random());
        std::os::unix::fs::symlink(made.0.path(), alias.path()).unwrap();
        let refused = open_as(own_uid(), &alias, 16);
        fs::remove_file(alias.path()).unwrap();
        assert!(refused.is_err());
    }

    #[test]
    fn a_size_without_memory_behind_it_is_refused() {
        let made = Made::new(&[]);
        File::options().write(true).open(made.0.path()).unwrap().set_len(1 << 48).unwrap();
        let refused = open(&made, 1 << 48).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().contains("fallocate"), "{refused}");
    }
}
