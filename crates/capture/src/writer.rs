//! Frames into a capture.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use pcap_file::Endianness;
use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriteError, PcapWriter, RawPcapPacket};

use crate::error::{CaptureError, Problem, check_is_file};

/// The maximum frame length in the header: more than any frame has.
///
/// It is the value that tcpdump writes.
const SNAPLEN: u32 = 1 << 18;

/// The resolution of times. All tools can read microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// Writes a pcap file. The same frames make the same file on every machine.
#[derive(Debug)]
pub struct CaptureWriter<W: Write = BufWriter<File>> {
    writer: PcapWriter<W>,
    name: String,
}

impl CaptureWriter {
    /// Creates a file, or empties an existing file.
    ///
    /// # Errors
    /// [`CaptureError`]: the path is not a regular file, or cannot be created or written.
    pub fn create(path: &Path, resolution: Resolution) -> Result<Self, CaptureError> {
        check_is_file(path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path);
        let file = file.map_err(|error| CaptureError::at(path, Problem::Create(error)))?;
        Self::new(path.display().to_string(), BufWriter::new(file), resolution)
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Writes a capture's header. `name`: for errors.
    ///
    /// # Errors
    /// [`CaptureError`]: it cannot be written.
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

    /// Adds a frame. Its time has 32 bits for seconds: a later one is written as the last that there is.
    ///
    /// # Errors
    /// [`CaptureError`]: it cannot be written.
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

    /// Hands everything over to the operating system: what was written before outlives the process.
    ///
    /// # Errors
    /// [`CaptureError`]: it cannot be written.
    pub fn flush(&mut self) -> Result<(), CaptureError> {
        self.writer.flush().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: PcapWriteError) -> CaptureError {
        CaptureError { file: self.name.clone(), problem: Problem::Write(cause(error)) }
    }
}

/// The operating system's error.
fn cause(error: PcapWriteError) -> io::Error {
    match error {
        PcapWriteError::Io(error) | PcapWriteError::FieldWriteFailed(_, error) => error,
        PcapWriteError::Validation(error) => io::Error::other(error.to_string()),
    }
}
