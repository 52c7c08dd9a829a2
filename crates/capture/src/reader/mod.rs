//! Frames from a capture.
//!
//! The reader holds at least one record in its buffer. The buffer grows only with the actual bytes of the file, so a
//! wrong length in a damaged file costs no memory. `classic` and `next_generation` are the two formats.

mod buffer;
mod classic;
mod next_generation;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use tributary_link::MAX_FRAME_BYTES;

use crate::error::{CaptureError, Problem, check_is_file};
use buffer::Buffer;
use classic::Classic;
use next_generation::NextGeneration;

/// The number of bytes at the start of a file that identify its format.
const MAGIC: usize = 4;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A frame and the time at which it was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// The time since the start of 1970 (UTC).
    pub at: Duration,
    /// The bytes of the frame from the destination address on.
    pub bytes: &'a [u8],
}

/// Reads a capture, frame by frame.
#[derive(Debug)]
pub struct CaptureReader<R> {
    name: String,
    buffer: Buffer<R>,
    format: Format,
    /// The number of frames that the reader has returned.
    frames: u64,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    NextGeneration(NextGeneration),
}

/// The position of a record, for errors.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The offset in the file at which the record begins.
    at: u64,
    /// The number of frames before the record.
    frames: u64,
}

/// The lengths of a frame according to its record.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    captured: u64,
    original: u64,
}

impl CaptureReader<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`CaptureError`] if the file does not exist, is not a regular file, or is not a capture of Ethernet frames.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        check_is_file(path)?;
        let file = File::open(path).map_err(|error| CaptureError::at(path, Problem::Open(error)))?;
        Self::new(path.display().to_string(), file)
    }
}

impl<R: Read> CaptureReader<R> {
    /// Creates a reader, and reads the capture's header. `name` is the name of the capture in errors.
    ///
    /// # Errors
    /// [`CaptureError`] if `source` is not a capture of Ethernet frames.
    pub fn new(name: impl Into<String>, source: R) -> Result<Self, CaptureError> {
        let name = name.into();
        let mut buffer = Buffer::new(source);
        match open(&mut buffer) {
            Ok(format) => Ok(Self { name, buffer, format, frames: 0 }),
            Err(problem) => Err(CaptureError { file: name, problem }),
        }
    }

    /// Returns true if times may have a resolution below a microsecond.
    pub fn is_fine(&self) -> bool {
        match &self.format {
            Format::Classic(classic) => classic.is_fine(),
            Format::NextGeneration(_) => true,
        }
    }

    /// Returns the next frame; `None` at the end of the capture.
    ///
    /// # Errors
    /// [`CaptureError`] if the capture cannot be read, is cut off or is damaged. The reader must not be used after an
    /// error.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame<'_>>, CaptureError> {
        let Self { name, buffer, format, frames } = self;
        let frame = match format {
            Format::Classic(classic) => classic.next_frame(buffer, *frames),
            Format::NextGeneration(blocks) => blocks.next_frame(buffer, *frames),
        };
        match frame {
            Ok(frame) => {
                *frames += u64::from(frame.is_some());
                Ok(frame)
            }
            Err(problem) => Err(CaptureError { file: name.clone(), problem }),
        }
    }
}

/// Detects the format and reads the header.
fn open<R: Read>(buffer: &mut Buffer<R>) -> Result<Format, Problem> {
    while buffer.unread().len() < MAGIC && buffer.fill()? {}
    match buffer.unread() {
        [] => Err(Problem::Empty),
        begin if classic::begins(begin) => Classic::open(buffer).map(Format::Classic),
        begin if next_generation::begins(begin) => NextGeneration::open(buffer).map(Format::NextGeneration),
        begin if begin.starts_with(&GZIP) || begin.starts_with(&ZSTD) => Err(Problem::Compressed),
        begin => Err(Problem::Format(begin.iter().copied().take(MAGIC).collect())),
    }
}

impl Place {
    fn cut(self) -> Problem {
        Problem::Cut { at: self.at, frames: self.frames }
    }

    fn damaged(self, what: impl Into<String>) -> Problem {
        Problem::Damaged { at: self.at, frames: self.frames, what: what.into() }
    }

    /// Checks a frame's length before the reader allocates memory for it.
    fn check_length(self, bytes: u64) -> Result<(), Problem> {
        if bytes <= MAX_FRAME_BYTES as u64 {
            return Ok(());
        }
        Err(Problem::TooLong { frame: self.frames + 1, at: self.at, bytes })
    }

    /// Checks that the capture contains the whole frame.
    fn check_whole(self, Lengths { captured, original }: Lengths) -> Result<(), Problem> {
        self.check_length(captured)?;
        if captured < original {
            return Err(Problem::Partly { frame: self.frames + 1, captured, length: original });
        }
        if captured > original {
            let what = format!("a frame of {original} bytes cannot have {captured} captured ones");
            return Err(self.damaged(what));
        }
        Ok(())
    }

    /// Checks that a time can be written to a pcap file.
    fn check_time(self, at: Duration) -> Result<Duration, Problem> {
        if at.as_secs() <= u64::from(u32::MAX) {
            return Ok(at);
        }
        Err(self.damaged(format!("a frame's time is {} seconds after 1970", at.as_secs())))
    }
}
