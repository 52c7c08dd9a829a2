//! Splits a received frame that consists of many datagrams of one stream.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::datagram::Headers;
use super::offload::{OFFLOAD_BYTES, Offload};
use super::vlan::{TAG_BYTES, Tag};
use crate::MAX_FRAME_BYTES;

/// The most datagrams in one frame. Splitting more would cost far more time than joining them. Linux
/// does not accept more from a UDP socket, either.
const MOST_FRAMES: usize = 128;
/// Number of successive errors of a socket after which the port stops trying to receive a frame. More
/// than one is not expected, because the kernel keeps only the last error. The limit prevents an unknown error from
/// blocking the thread.
const MOST_ERRORS: usize = 4;

/// A frame that was received outside of the ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Apart {
    /// The frame's length in bytes, without the tag that the kernel has removed.
    pub(super) len: usize,
    /// True if the buffer had room for the whole frame.
    is_whole: bool,
}

/// Frames that arrived as one joined frame, and that the port returns one by one.
#[derive(Debug, Default)]
pub(super) struct JoinedFrames {
    /// The offload information (or room for it), the headers, and all payloads. The headers of each frame
    /// are written in front of its payload. They replace the end of the previous frame, which is not needed any more.
    /// The tag of the first frame replaces the end of the offload information.
    bytes: Vec<u8>,
    /// The end of the payloads in `bytes`.
    end: usize,
    /// The headers of the next frame; `None` before the first frame.
    headers: Option<Headers>,
    /// The number of payload bytes of each frame; the last frame may have fewer.
    segment: usize,
    /// The range of the present frame in `bytes`.
    frame: Range<usize>,
    /// The offset in `bytes` for the headers of the next frame.
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
                // The error concerns the socket and not the frame: the interface was down, or a signal has arrived. The
                // kernel reports it once, instead of the frame, which still waits.
                Err(_) => {}
            }
        }
        None
    }

    /// Returns true if the [received](Self::receive) frame is the frame that a slot announces, that is,
    /// if it has the length `len` and begins with `begin`.
    pub(super) fn is_announced(&self, apart: Apart, len: usize, begin: &[u8]) -> bool {
        apart.len == len && self.bytes.get(OFFLOAD_BYTES..).is_some_and(|frame| frame.starts_with(begin))
    }

    /// Returns the offload information of the received frame.
    pub(super) fn offload(&self) -> Offload {
        self.bytes.first_chunk().copied().map(Offload::parse).unwrap_or_default()
    }

    /// Begins to split the received frame, from which the kernel has removed `tag`. Returns false if the
    /// frame cannot be split.
    pub(super) fn split(&mut self, apart: Apart, tag: Option<Tag>) -> bool {
        apart.is_whole && self.begin(apart.len, self.offload(), tag)
    }

    /// Begins to split a copy of `frame`, from which the kernel has removed `tag`. Returns false if the
    /// frame cannot be split.
    pub(super) fn copy(&mut self, frame: &[u8], offload: Offload, tag: Option<Tag>) -> bool {
        let Some(place) = self.room().get_mut(OFFLOAD_BYTES..OFFLOAD_BYTES + frame.len()) else {
            return false;
        };
        place.copy_from_slice(frame);
        self.begin(frame.len(), offload, tag)
    }

    /// Returns a buffer for any frame and its offload information. It is allocated only here, because
    /// most ports never need it.
    fn room(&mut self) -> &mut [u8] {
        self.bytes.resize(OFFLOAD_BYTES + MAX_FRAME_BYTES, 0);
        &mut self.bytes
    }

    /// Begins to split the frame of `len` bytes that follows the offload information.
    fn begin(&mut self, len: usize, offload: Offload, tag: Option<Tag>) -> bool {
        let frame = self.bytes.get(OFFLOAD_BYTES..OFFLOAD_BYTES + len).unwrap_or_default();
        let (Some(segments), Some(mut headers)) = (offload.segments(frame), Headers::of(frame)) else {
            return false;
        };
        if segments.headers != headers.len() || segments.within(len) > MOST_FRAMES {
            return false;
        }
        // If the checksums are not left to do, the kernel has verified and removed them, so each datagram had one.
        headers = headers.with_tag(tag).with_checksum(!offload.needs_checksum());
        headers.set_payload(segments.payload.min(len - segments.headers));
        (self.headers, self.segment) = (Some(headers), segments.payload);
        self.next = OFFLOAD_BYTES - tag.map_or(0, |_| TAG_BYTES);
        self.end = OFFLOAD_BYTES + len;
        true
    }

    /// Continues with the next frame; returns false if there is none.
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

    /// Returns the frame to which [`advance`](Self::advance) has moved.
    pub(super) fn frame(&self) -> &[u8] {
        self.bytes.get(self.frame.clone()).unwrap_or_default()
    }

    /// Returns the number of frames that were not returned yet, and their bytes.
    pub(super) fn left(&self) -> (usize, usize) {
        let header_bytes = self.headers.map_or(0, |headers| headers.len());
        let payload = self.end.saturating_sub(self.next + header_bytes);
        let frames = payload.div_ceil(self.segment.max(1));
        (frames, payload + frames * header_bytes)
    }

    /// Drops the frames that were not returned yet.
    pub(super) fn clear(&mut self) {
        (self.next, self.end) = (0, 0);
    }
}
