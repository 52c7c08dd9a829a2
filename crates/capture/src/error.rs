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

/// Checks that the path is free or belongs to a regular file.
pub(crate) fn check_is_file(path: &Path) -> Result<(), CaptureError> {
    match tributary_files::check_output(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(CaptureError::at(path, Problem::NoFile))
        }
        // Any other problem is reported when the file is opened.
        _ => Ok(()),
    }
}

/// The reason why a file cannot be read or written. Frames are counted from 1, as in Wireshark.
#[derive(Debug, Error)]
pub enum Problem {
    /// The operating system cannot open the file.
    #[error("it cannot be opened: {0}")]
    Open(io::Error),
    /// The operating system cannot create the file.
    #[error("it cannot be created: {0}")]
    Create(io::Error),
    /// The operating system cannot read the file.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// The operating system cannot write the file.
    #[error("it cannot be written: {0}")]
    Write(io::Error),
    /// The path belongs to a folder, a pipe or a device. Access to these may block the switch.
    #[error("it is not a regular file: write the frames to one first")]
    NoFile,
    /// The file is given twice and is written to: by two ports, by both directions of one port, or by a
    /// port while the switch was started with the file.
    #[error("it is given twice, and is written to: each capture needs a file of its own")]
    Twice,
    /// The file is empty.
    #[error("it is empty: not even a capture's header is there")]
    Empty,
    /// The file does not begin like a capture; the first bytes are given.
    #[error("it is no capture: it begins with {0:02x?}, as neither pcap nor pcapng does")]
    Format(Vec<u8>),
    /// The file begins like a compressed file.
    #[error("it is compressed: decompress it first")]
    Compressed,
    /// The frames are not Ethernet frames; the link type is given.
    #[error("its frames are of link type {0}, and only Ethernet (1) is known here")]
    LinkType(u32),
    /// The file ends too early.
    #[error("it was cut off: it ends in the middle of what begins at byte {at}, after {frames} whole frames")]
    Cut {
        /// The offset in the file at which the incomplete record begins.
        at: u64,
        /// The number of complete frames before this offset.
        frames: u64,
    },
    /// A frame is longer than any frame can be.
    #[error(
        "frame {frame}, at byte {at}, would have {bytes} bytes: {MAX_FRAME_BYTES} are the most; \
         the file is damaged, or these are no frames of a link"
    )]
    TooLong {
        /// The frame's number.
        frame: u64,
        /// The offset in the file at which the frame begins.
        at: u64,
        /// The frame's length according to the file.
        bytes: u64,
    },
    /// The capture does not contain the whole frame.
    #[error(
        "frame {frame} has only the first {captured} of its {length} bytes: \
         capture again without a snapshot length (tcpdump -s 0)"
    )]
    Partly {
        /// The frame's number.
        frame: u64,
        /// The number of the frame's bytes in the capture.
        captured: u64,
        /// The number of bytes that the frame had on the link.
        length: u64,
    },
    /// The contents of the file contradict each other.
    #[error("it is damaged at byte {at}, after {frames} whole frames: {what}")]
    Damaged {
        /// The offset in the file at which the damaged record begins.
        at: u64,
        /// The number of complete frames before this offset.
        frames: u64,
        /// The problem with the record or block.
        what: String,
    },
}
