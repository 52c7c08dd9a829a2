//! The pcapng format: one or more sections of blocks of many kinds, with frames of several
//! interfaces.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::{Block, PcapNgParseError, PcapNgParser};

use super::buffer::Buffer;
use super::{CapturedFrame, Lengths, Place};
use crate::error::Problem;

/// The type of the first block of every file.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The longest block, equal to Wireshark's limit. Blocks without a frame may be longer than frames.
const MOST_BYTES: usize = 16 << 20;
/// The most interfaces of a section. The limit is needed because the parser keeps data about each
/// interface.
const MOST_INTERFACES: usize = 4096;

#[derive(Debug)]
pub(super) struct NextGeneration {
    parser: PcapNgParser,
    /// The time of the last frame. Frames in simple blocks have no time, so they get this time.
    last: Duration,
}

/// Returns true if the file is in this format.
pub(super) fn begins(file: &[u8]) -> bool {
    file.starts_with(&SECTION_HEADER)
}

/// The data of a frame inside a block.
struct Found {
    at: Option<Duration>,
    interface: usize,
    lengths: Lengths,
    /// The offset of the frame in the block.
    begin: usize,
}

impl NextGeneration {
    pub(super) fn open<R: Read>(buffer: &mut Buffer<R>) -> Result<Self, Problem> {
        let place = Place { at: 0, frames: 0 };
        let (parser, length) = loop {
            let unread = buffer.unread();
            match PcapNgParser::new(unread) {
                Ok((rest, parser)) => break (parser, unread.len() - rest.len()),
                Err(error) => go_on(buffer, place, &error)?,
            }
        };
        buffer.consume(length);
        Ok(Self { parser, last: Duration::ZERO })
    }

    pub(super) fn next_frame<'a, R: Read>(
        &mut self,
        buffer: &'a mut Buffer<R>,
        frames: u64,
    ) -> Result<Option<CapturedFrame<'a>>, Problem> {
        let (found, length) = loop {
            let place = Place { at: buffer.offset(), frames };
            let unread = buffer.unread();
            if unread.is_empty() && !buffer.fill()? {
                return Ok(None);
            }
            let unread = buffer.unread();
            match self.parser.next_block(unread) {
                Ok((rest, block)) => {
                    let length = unread.len() - rest.len();
                    let found = found(&block, unread, place)?;
                    self.check(place, found.as_ref())?;
                    match found {
                        Some(found) => break (found, length),
                        None => drop(buffer.consume(length)),
                    }
                }
                Err(error) => go_on(buffer, place, &error)?,
            }
        };
        let at = found.at.unwrap_or(self.last);
        self.last = at;
        let end = found.begin + usize::try_from(found.lengths.captured).unwrap_or_default();
        let bytes = buffer.consume(length).get(found.begin..end).unwrap_or_default();
        Ok(Some(CapturedFrame { at, bytes }))
    }

    fn check(&self, place: Place, found: Option<&Found>) -> Result<(), Problem> {
        let interfaces = self.parser.interfaces();
        if interfaces.len() > MOST_INTERFACES {
            let what = format!("a section with more than {MOST_INTERFACES} interfaces");
            return Err(place.damaged(what));
        }
        let Some(found) = found else { return Ok(()) };
        let interface = interfaces.get(found.interface).ok_or_else(|| {
            place.damaged(format!("a frame is of interface {}, which is not described", found.interface))
        })?;
        if interface.linktype != DataLink::ETHERNET {
            return Err(Problem::LinkType(interface.linktype.into()));
        }
        place.check_whole(found.lengths)?;
        found.at.map_or(Ok(()), |at| place.check_time(at).map(drop))
    }
}

/// Returns the frame in a block; `None` if blocks of this kind have no frame.
fn found(block: &Block<'_>, unread: &[u8], place: Place) -> Result<Option<Found>, Problem> {
    let (at, interface, data, original) = match block {
        Block::EnhancedPacket(packet) => {
            (Some(packet.timestamp), packet.interface_id as usize, &packet.data, packet.original_len)
        }
        Block::SimplePacket(packet) => (None, 0, &packet.data, packet.original_len),
        Block::Packet(_) => {
            let what = "a block of the old kind \"packet\": convert it with `editcap -F pcap`";
            return Err(place.damaged(what));
        }
        _ => return Ok(None),
    };
    let lengths = Lengths { captured: data.len() as u64, original: original.into() };
    let begin = data.as_ptr().addr().checked_sub(unread.as_ptr().addr());
    let begin = begin.filter(|begin| unread.get(*begin..begin + data.len()) == Some(&data[..]));
    let begin = begin.ok_or_else(|| place.damaged("a frame is not in its block"))?;
    Ok(Some(Found { at, interface, lengths, begin }))
}

/// Reads more of the file if the parser needs more bytes; otherwise returns the parser's error.
fn go_on<R: Read>(buffer: &mut Buffer<R>, place: Place, error: &PcapNgParseError) -> Result<(), Problem> {
    match error {
        PcapNgParseError::IncompleteBuffer(needed, _) if *needed > MOST_BYTES => {
            Err(place.damaged(format!("a block of more than {needed} bytes: {MOST_BYTES} are the most")))
        }
        PcapNgParseError::IncompleteBuffer(..) => {
            if buffer.fill()? {
                Ok(())
            } else {
                Err(place.cut())
            }
        }
        other => Err(place.damaged(with_causes(other))),
    }
}

/// Returns the text of an error and of all its causes.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text = format!("{text}: {one}");
        cause = one.source();
    }
    text
}
