//! Writing frames to a capture.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use pcap_file::Endianness;
use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriteError, PcapWriter, RawPcapPacket};

use crate::error::{CaptureError, Problem, check_is_file};

/// The maximum frame length in the header, which is longer than any frame. tcpdump writes the same
/// value.
const SNAPLEN: u32 = 1 << 18;

/// The resolution of times. All tools can read microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Writes a pcap file. The same frames give the same file on every machine.
#[derive(Debug)]
pub struct CaptureWriter<W: Write = BufWriter<File>> {
    writer: PcapWriter<W>,
    name: String,
}

impl CaptureWriter {
    /// Creates a file, or empties an existing file.
    ///
    /// # Errors
    /// [`CaptureError`] if the path does not belong to a regular file, or if the file cannot be created or written.
    pub fn create(path: &Path, resolution: Resolution) -> Result<Self, CaptureError> {
        check_is_file(path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|error| CaptureError::at(path, Problem::Create(error)))?;
        Self::new(path.display().to_string(), BufWriter::new(file), resolution)
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Creates a writer, and writes the capture's header. `name` is the name of the capture in errors.
    ///
    /// # Errors
    /// [`CaptureError`] if the header cannot be written.
    pub fn new(name: impl Into<String>, target: W, resolution: Resolution) -> Result<Self, CaptureError> {
        let name = name.into();
        let ts_resolution = match resolution {
            Resolution::Microseconds => PcapTsResolution::MicroSecond,
            Resolution::Nanoseconds => PcapTsResolution::NanoSecond,
        };
        let header = PcapHeader {
            snaplen: SNAPLEN,
            ts_resolution,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        match PcapWriter::with_header(target, header) {
            Ok(writer) => Ok(Self { writer, name }),
            Err(error) => Err(CaptureError { file: name, problem: Problem::Write(cause(error)) }),
        }
    }

    /// Adds a frame. The format has 32 bits for the seconds of its time; a later time becomes the latest
    /// possible one.
    ///
    /// # Errors
    /// [`CaptureError`] if the frame cannot be written.
    pub fn write(&mut self, at: Duration, frame: &[u8]) -> Result<(), CaptureError> {
        let ts_frac = match self.writer.ts_resolution() {
            PcapTsResolution::MicroSecond => at.subsec_micros(),
            PcapTsResolution::NanoSecond => at.subsec_nanos(),
        };
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let record = RawPcapPacket {
            ts_sec: u32::try_from(at.as_secs()).unwrap_or(u32::MAX),
            ts_frac,
            incl_len: length,
            orig_len: length,
            data: Cow::Borrowed(frame),
        };
        self.writer.write_raw_packet(&record).map(drop).map_err(|error| self.failed(error))
    }

    /// Passes all frames to the operating system, so that they are kept even if the process ends.
    ///
    /// # Errors
    /// [`CaptureError`] if the frames cannot be written.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.writer.flush().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: PcapWriteError) -> CaptureError {
        CaptureError { file: self.name.clone(), problem: Problem::Write(cause(error)) }
    }
}

/// Returns the operating system's error.
fn cause(error: PcapWriteError) -> io::Error {
    match error {
        PcapWriteError::Io(error) | PcapWriteError::FieldWriteFailed(_, error) => error,
        PcapWriteError::Validation(error) => io::Error::other(error.to_string()),
    }
}
