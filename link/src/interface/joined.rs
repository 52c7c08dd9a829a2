//! Splits a received frame of many datagrams of one stream.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, recv};

use super::datagram::{self, HEADER_BYTES};
use super::offload::OFFLOAD_BYTES;
use crate::MAX_FRAME_BYTES;

/// The most frames in one: with more, splitting would cost far more than joining. Linux does not accept more from a UDP
/// socket, either.
const MOST_FRAMES: usize = 128;

/// The number of frames in one of `len` bytes, if it consists of datagrams of `segment` bytes of payload each.
pub(super) fn frames_in(len: usize, segment: Option<usize>) -> usize {
    segment.map_or(1, |segment| len.saturating_sub(HEADER_BYTES).div_ceil(segment))
}

/// Frames that came in as one, and are handed out one by one.
#[derive(Debug)]
pub(super) struct JoinedFrames {
    /// The headers and all payloads. Each frame's headers are written in front of its payload, over the end of the
    /// previous frame, which is not needed any more.
    bytes: Vec<u8>,
    /// The end of the payloads.
    end: usize,
    /// The headers of the next frame.
    headers: [u8; HEADER_BYTES],
    /// The bytes of payload of each frame; the last one may have fewer.
    segment: usize,
    /// The place of the frame that is handed out.
    frame: Range<usize>,
    /// The place for the headers of the next frame.
    next: usize,
}

impl Default for JoinedFrames {
    /// No frames.
    fn default() -> Self {
        let headers = [0; HEADER_BYTES];
        Self { bytes: Vec::new(), end: 0, headers, segment: 0, frame: 0..0, next: 0 }
    }
}

impl JoinedFrames {
    /// Receives the next frame from `socket`, whose datagrams have `segment` bytes of payload each. `false`: it cannot
    /// be split.
    pub(super) fn receive(&mut self, socket: &OwnedFd, segment: Option<usize>) -> bool {
        // Allocated only here: most ports never need it.
        self.bytes.resize(OFFLOAD_BYTES + MAX_FRAME_BYTES, 0);
        let received = recv(socket, self.bytes.as_mut_slice(), RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        let fits = |&(kept, len): &(usize, usize)| kept == len;
        let len = received.ok().filter(fits).and_then(|(_, len)| len.checked_sub(OFFLOAD_BYTES));
        len.is_some_and(|len| self.begin(OFFLOAD_BYTES, len, segment))
    }

    /// Takes a copy of a frame, as [`receive`](Self::receive) does of a received one.
    pub(super) fn copy(&mut self, frame: &[u8], segment: Option<usize>) -> bool {
        self.bytes.clear();
        self.bytes.extend_from_slice(frame);
        self.begin(0, frame.len(), segment)
    }

    fn begin(&mut self, at: usize, len: usize, segment: Option<usize>) -> bool {
        let frame = self.bytes.get(at..at + len).unwrap_or_default();
        let is_sound = datagram::is_udp(frame) && frames_in(len, segment) <= MOST_FRAMES;
        let (true, Some(segment), Some(headers)) = (is_sound, segment, frame.first_chunk::<HEADER_BYTES>())
        else {
            return false;
        };
        (self.headers, self.segment) = (*headers, segment);
        datagram::set_payload(&mut self.headers, segment.min(len - HEADER_BYTES));
        (self.next, self.end) = (at, at + len);
        true
    }

    /// Goes on to the next frame. `false`: there is none.
    pub(super) fn advance(&mut self) -> bool {
        let begin = self.next;
        let payload = self.end.saturating_sub(begin + HEADER_BYTES).min(self.segment);
        if payload == 0 {
            return false;
        }
        if payload < self.segment {
            datagram::set_payload(&mut self.headers, payload);
        }
        self.frame = begin..begin + HEADER_BYTES + payload;
        if let Some(place) = self.bytes.get_mut(begin..begin + HEADER_BYTES) {
            place.copy_from_slice(&self.headers);
        }
        self.next = begin + payload;
        true
    }

    /// The frame to which it has [gone on](Self::advance).
    pub(super) fn frame(&self) -> &[u8] {
        self.bytes.get(self.frame.clone()).unwrap_or_default()
    }

    /// Forgets the frames that were not handed out.
    pub(super) fn clear(&mut self) {
        (self.next, self.end) = (0, 0);
    }
}
