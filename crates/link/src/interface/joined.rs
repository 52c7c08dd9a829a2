//! Splits a received frame of many datagrams of one stream.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::datagram::Headers;
use super::offload::{OFFLOAD_BYTES, Offload};
use super::vlan::{TAG_BYTES, Tag};
use crate::MAX_FRAME_BYTES;

/// The most frames in one: with more, splitting would cost far more than joining.
/// Linux does not accept more from a UDP socket, either.
const MOST_FRAMES: usize = 128;
/// Number of successive errors that a socket may report before the port gives up the frame.
/// More than one is not to be expected, since the kernel keeps only the last one; the limit keeps an unknown one from
/// holding up the thread.
const MOST_ERRORS: usize = 4;

/// A frame that was received outside of the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// Its length in bytes, without the tag that the kernel has taken off.
    pub(super) len: usize,
    /// There was room for all of it.
    is_whole: bool,
}

/// Frames that came in as one, and are handed out one by one.
#[derive(Debug, Default)]
pub(super) struct JoinedFrames {
    /// The offload information, or room for it; the headers and all payloads.
    /// Each frame's headers are written in front of its payload, over the end of the previous frame, which is not
    /// needed any more; a tag of the first one, over the offload information.
    bytes: Vec<u8>,
    /// The end of the payloads.
    end: usize,
    /// The headers of the next frame; `None` before there were any frames.
    headers: Option<Headers>,
    /// The bytes of payload of each frame; the last one may have fewer.
    segment: usize,
    /// The place of the frame that is handed out.
    frame: Range<usize>,
    /// The place for the headers of the next frame.
    next: usize,
}

impl JoinedFrames {
    /// Receives the frame that has waited longest outside of the ring; `None` if no frame waits there.
    pub(super) fn receive(&mut self, socket: &OwnedFd) -> Option<Apart> {
        self.clear();
        for _ in 0..MOST_ERRORS {
            match recv(socket, self.room(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((kept, len)) => {
                    return Some(Apart { len: len.checked_sub(OFFLOAD_BYTES)?, is_whole: kept == len });
                }
                Err(Errno::AGAIN) => return None,
                // An error of the socket, and not of the frame: its interface was down, or a signal came. The kernel
                // reports it once, in place of the frame, which still waits.
                Err(_) => {}
            }
        }
        None
    }

    /// Returns true if the [received](Self::receive) frame is the one that a slot announces: as
    /// long, with the same beginning.
    pub(super) fn is_announced(&self, apart: Apart, len: usize, begin: &[u8]) -> bool {
        apart.len == len && self.bytes.get(OFFLOAD_BYTES..).is_some_and(|frame| frame.starts_with(begin))
    }

    /// The received frame's own offload information.
    pub(super) fn offload(&self) -> Offload {
        self.bytes.first_chunk().copied().map(Offload::parse).unwrap_or_default()
    }

    /// Begins with the received frame, from which the kernel has taken this tag.
    /// `false`: it cannot be split.
    pub(super) fn split(&mut self, apart: Apart, tag: Option<Tag>) -> bool {
        apart.is_whole && self.begin(apart.len, self.offload(), tag)
    }

    /// Begins with a copy of a frame, from which the kernel has taken this tag.
    /// `false`: it cannot be split.
    pub(super) fn copy(&mut self, frame: &[u8], offload: Offload, tag: Option<Tag>) -> bool {
        let Some(place) = self.room().get_mut(OFFLOAD_BYTES..OFFLOAD_BYTES + frame.len()) else {
            return false;
        };
        place.copy_from_slice(frame);
        self.begin(frame.len(), offload, tag)
    }

    /// Room for any frame behind its offload information; allocated only here, since most
    /// ports never need it.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.resize(OFFLOAD_BYTES + MAX_FRAME_BYTES, 0);
        &mut self.bytes
    }

    /// Begins with the frame of `len` bytes behind the offload information.
    fn begin(&mut self, len: usize, offload: Offload, tag: Option<Tag>) -> bool {
        let frame = self.bytes.get(OFFLOAD_BYTES..OFFLOAD_BYTES + len).unwrap_or_default();
        let (Some(segments), Some(mut headers)) = (offload.segments(frame), Headers::of(frame)) else {
            return false;
        };
        if segments.headers != headers.len() || segments.within(len) > MOST_FRAMES {
            return false;
        }
        // Where the kernel has checked and removed checksums, and not left them to do, each datagram had one.
        headers = headers.with_tag(tag).with_checksum(!offload.needs_checksum());
        headers.set_payload(segments.payload.min(len - segments.headers));
        (self.headers, self.segment) = (Some(headers), segments.payload);
        self.next = OFFLOAD_BYTES - tag.map_or(0, |_| TAG_BYTES);
        self.end = OFFLOAD_BYTES + len;
        true
    }

    /// Continues to the next frame. `false`: there is none.
    pub(super) fn advance(&mut self) -> bool {
        let Some(headers) = &mut self.headers else { return false };
        let (begin, header_bytes) = (self.next, headers.len());
        let payload = self.end.saturating_sub(begin + header_bytes).min(self.segment);
        if payload == 0 {
            return false;
        }
        if payload < self.segment {
            headers.set_payload(payload);
        }
        self.frame = begin..begin + header_bytes + payload;
        if let Some(frame) = self.bytes.get_mut(self.frame.clone()) {
            headers.write(frame);
        }
        headers.go_on();
        self.next = begin + payload;
        true
    }

    /// The frame to which it has [gone on](Self::advance).
    pub(super) fn frame(&self) -> &[u8] {
        self.bytes.get(self.frame.clone()).unwrap_or_default()
    }

    /// Returns the number of frames that were not handed out yet, and their bytes.
    pub(super) fn left(&self) -> (usize, usize) {
        let header_bytes = self.headers.map_or(0, |headers| headers.len());
        let payload = self.end.saturating_sub(self.next + header_bytes);
        let frames = payload.div_ceil(self.segment.max(1));
        (frames, payload + frames * header_bytes)
    }

    /// Forgets the frames that were not handed out.
    pub(super) fn clear(&mut self) {
        (self.next, self.end) = (0, 0);
    }
}
