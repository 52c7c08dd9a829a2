//! The pcap format: a file header, and a record for each frame.

use std::io::Read;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcap::{PcapHeader, PcapParseError, PcapParser, PcapTsResolution};

use super::buffer::Buffer;
use super::{CapturedFrame, Lengths, Place};
use crate::error::Problem;

/// The length of a file's header.
const HEADER: usize = 24;
/// The length of the record header in front of each frame.
const RECORD: usize = 16;
/// The only major version of the format that exists.
const VERSION: u16 = 2;

#[derive(Debug)]
pub(super) struct Classic {
    parser: PcapParser,
}

/// Returns true if the file is in this format, in either byte order, with micro- or nanoseconds.
pub(super) fn begins(file: &[u8]) -> bool {
    matches!(
        file,
        [0xa1, 0xb2, 0xc3, 0xd4, ..]
            | [0xa1, 0xb2, 0x3c, 0x4d, ..]
            | [0xd4, 0xc3, 0xb2, 0xa1, ..]
            | [0x4d, 0x3c, 0xb2, 0xa1, ..]
    )
}

impl Classic {
    pub(super) fn open<R: Read>(buffer: &mut Buffer<R>) -> Result<Self, Problem> {
        let place = Place { at: 0, frames: 0 };
        while buffer.unread().len() < HEADER {
            if !buffer.fill()? {
                return Err(place.cut());
            }
        }
        let (_, parser) =
            PcapParser::new(buffer.unread()).map_err(|error| place.damaged(error.to_string()))?;
        let PcapHeader { version_major, version_minor, datalink, .. } = parser.header();
        if version_major != VERSION {
            return Err(place.damaged(format!("there is no pcap of version {version_major}.{version_minor}")));
        }
        if datalink != DataLink::ETHERNET {
            return Err(Problem::LinkType(datalink.into()));
        }
        buffer.consume(HEADER);
        Ok(Self { parser })
    }

    pub(super) fn is_fine(&self) -> bool {
        self.parser.header().ts_resolution == PcapTsResolution::NanoSecond
    }

    pub(super) fn next_frame<'a, R: Read>(
        &self,
        buffer: &'a mut Buffer<R>,
        frames: u64,
    ) -> Result<Option<CapturedFrame<'a>>, Problem> {
        let place = Place { at: buffer.offset(), frames };
        let (at, length) = loop {
            match self.parser.next_raw_packet(buffer.unread()) {
                Ok((_, record)) => {
                    let lengths =
                        Lengths { captured: record.incl_len.into(), original: record.orig_len.into() };
                    place.check_whole(lengths)?;
                    self.check_snaplen(place, record.incl_len)?;
                    break (self.time(place, record.ts_sec, record.ts_frac)?, record.data.len());
                }
                Err(PcapParseError::IncompleteBuffer(needed, _)) => {
                    place.check_length(needed as u64)?;
                    if !buffer.fill()? {
                        return if buffer.unread().is_empty() { Ok(None) } else { Err(place.cut()) };
                    }
                }
                Err(error) => return Err(place.damaged(error.to_string())),
            }
        };
        let bytes = buffer.consume(RECORD + length).get(RECORD..).unwrap_or_default();
        Ok(Some(CapturedFrame { at, bytes }))
    }

    /// Checks that the frame is no longer than the file header's limit. A limit of 0 means no limit.
    fn check_snaplen(&self, place: Place, captured: u32) -> Result<(), Problem> {
        match self.parser.header().snaplen {
            0 => Ok(()),
            most if captured <= most => Ok(()),
            most => {
                Err(place.damaged(format!("a frame has {captured} bytes, and by the header {most} at most")))
            }
        }
    }

    fn time(&self, place: Place, seconds: u32, fraction: u32) -> Result<Duration, Problem> {
        let (a_second, unit) = if self.is_fine() { (1_000_000_000, 1) } else { (1_000_000, 1000) };
        if fraction >= a_second {
            let what = format!("a frame's time has {fraction} of {a_second} parts of a second");
            return Err(place.damaged(what));
        }
        Ok(Duration::new(seconds.into(), fraction * unit))
    }
}
