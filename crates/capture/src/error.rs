use std::io;
use std::path::Path;

use thiserror::Error;
use tributary_link::MAX_FRAME_BYTES;

/// A problem with a capture file.
#[derive(Debug, Error)]
#[error("{file}: {problem}")]
pub struct CaptureError {
    /// The file's path, as the caller has passed it.
    pub file: String,
    /// The problem with the file.
    pub problem: Problem,
}

impl CaptureError {
    /// Creates the error for a problem with the file at `path`.
    pub(crate) fn at(path: &Path, problem: Problem) -> Self {
        Self { file: path.display().to_string(), problem }
    }
}

/// Checks that there is a regular file at `path`, or nothing.
pub(crate) fn check_is_file(path: &Path) -> Result<(), CaptureError> {
    match tributary_files::check_output(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(CaptureError::at(path, Problem::NoFile))
        }
        // Opening it names any other problem.
        _ => Ok(()),
    }
}

/// Why a file cannot be read or written. Frames are counted from 1 on, as Wireshark does.
#[derive(Debug, Error)]
pub enum Problem {
    /// The operating system does not open it.
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    /// The operating system does not create it.
    #[error("it cannot be created: {0}")]
    Create(io::Error),
    /// The operating system does not read it.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// The operating system does not write it.
    #[error("it cannot be written: {0}")]
    Write(io::Error),
    /// It is a folder, a pipe or a device, which may hold up a switch.
    #[error("it is not a regular file: write the frames to one first")]
    NoFile,
    /// Two ports, or both directions of one, have the same file, and one of them writes to it; or it is
    /// what the switch was started with.
    #[error("it is given twice, and is written to: each capture needs a file of its own")]
    Twice,
    /// It has no byte.
    #[error("it is empty: not even a capture's header is there")]
    Empty,
    /// It begins like no capture.
    #[error("it is no capture: it begins with {0:02x?}, as neither pcap nor pcapng does")]
    Format(Vec<u8>),
    /// It begins as a compressed file does.
    #[error("it is compressed: decompress it first")]
    Compressed,
    /// The frames are not Ethernet frames.
    #[error("its frames are of link type {0}, and only Ethernet (1) is known here")]
    LinkType(u32),
    /// The file ends too early.
    #[error("it was cut off: it ends in the middle of what begins at byte {at}, after {frames} whole frames")]
    Cut {
        /// Where the record that is not whole begins.
        at: u64,
        /// The frames before it.
        frames: u64,
    },
    /// A frame is longer than frames are.
    #[error(
        "frame {frame}, at byte {at}, would have {bytes} bytes: {MAX_FRAME_BYTES} are the most; \
         the file is damaged, or these are no frames of a link"
    )]
    TooLong {
        /// The frame's number.
        frame: u64,
        /// Where it begins.
        at: u64,
        /// The length that the file gives it.
        bytes: u64,
    },
    /// A frame's end was not captured.
    #[error(
        "frame {frame} has only the first {captured} of its {length} bytes: \
         capture again without a snapshot length (tcpdump -s 0)"
    )]
    Partly {
        /// The frame's number.
        frame: u64,
        /// The number of bytes in the capture.
        captured: u64,
        /// The bytes that it had on the link.
        length: u64,
    },
    /// The file contradicts itself.
    #[error("it is damaged at byte {at}, after {frames} whole frames: {what}")]
    Damaged {
        /// Where the damaged record begins.
        at: u64,
        /// The frames before it.
        frames: u64,
        /// The problem with the record or block.
        what: String,
    },
}
