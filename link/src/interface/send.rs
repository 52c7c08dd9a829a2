//! Frames on their way out: gathered, and sent off by one system call.
//!
//! A port may put neighbouring datagrams of one stream together, as the kernel does with TCP's segments: they go through queues,
//! and over a virtual cable, as one frame, which is [taken apart](super::many) where single ones are wanted.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::datagram::{self, HEADER_BYTES};
use super::offload::{OFFLOAD_BYTES, Offload};
use crate::MAX_FRAME_BYTES;
use crate::meter::DirectionMeter;

/// Frames that one system call sends at the most. A longer batch would only make the first frame wait.
const BATCH: usize = 32;

/// Frames that wait to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// One message behind the other.
    bytes: Vec<u8>,
    messages: Vec<Message>,
    /// In all of them.
    frames: usize,
    /// The longest frame that is put together with others; `None`: none is.
    longest_merged: Option<usize>,
    meter: DirectionMeter,
}

/// A frame, or many in one, behind what the kernel is told of it.
#[derive(Debug)]
struct Message {
    place: Range<usize>,
    frames: usize,
    /// Bytes of payload that a datagram behind the others may have at most; `None`: the last one has come, or none may.
    takes: Option<usize>,
}

impl Message {
    /// Bytes of its frames as they were handed in, each with headers of its own.
    fn frame_bytes(&self) -> usize {
        self.place.len() - OFFLOAD_BYTES + (self.frames - 1) * HEADER_BYTES
    }
}

impl Outgoing {
    pub(super) fn new(meter: DirectionMeter) -> Self {
        let (bytes, messages) = (Vec::new(), Vec::with_capacity(BATCH));
        Self { bytes, messages, frames: 0, longest_merged: None, meter }
    }

    /// From now on, frames of so many bytes at the most may be put together.
    pub(super) fn put_together(&mut self, longest: usize) {
        self.longest_merged = Some(longest);
    }

    pub(super) fn queue(&mut self, frame: &[u8]) {
        self.frames += 1;
        let may_merge = self.longest_merged.is_some_and(|longest| frame.len() <= longest);
        let payload = (may_merge && datagram::is_plain(frame)).then(|| frame.len() - HEADER_BYTES);
        if let Some(payload) = payload
            && self.extend_last(frame, payload)
        {
            return;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&Offload::default().to_bytes());
        self.bytes.extend_from_slice(frame);
        self.messages.push(Message { place: begin..self.bytes.len(), frames: 1, takes: payload });
    }

    /// Adds a plain frame to the last message, if that takes it.
    fn extend_last(&mut self, frame: &[u8], payload: usize) -> bool {
        let Self { bytes, messages, .. } = self;
        let Some(last) = messages.last_mut() else { return false };
        let first = bytes.get(last.place.start + OFFLOAD_BYTES..last.place.end).unwrap_or_default();
        let is_taken = last.takes.is_some_and(|segment| payload <= segment)
            && first.len() + payload <= MAX_FRAME_BYTES
            && datagram::is_one_stream(first, frame);
        if is_taken {
            bytes.extend_from_slice(frame.get(HEADER_BYTES..).unwrap_or_default());
            last.takes = last.takes.filter(|segment| payload == *segment);
            (last.place.end, last.frames) = (bytes.len(), last.frames + 1);
        }
        is_taken
    }

    /// Is it time to send?
    pub(super) fn is_full(&self) -> bool {
        self.frames >= BATCH
    }

    /// Hands all frames to the kernel; those that it has no room for are dropped, and counted.
    pub(super) fn send_all(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        self.mark();
        let mut first = 0;
        while let Some(message) = self.messages.get(first) {
            match self.send_from(first, socket) {
                Ok(sent) => {
                    let sent = self.messages.iter().skip(first).take(sent);
                    first += sent.len();
                    let add =
                        |(frames, bytes), sent: &Message| (frames + sent.frames, bytes + sent.frame_bytes());
                    let (frames, bytes) = sent.fold((0, 0), add);
                    self.meter.count_all_carried(frames, bytes);
                }
                Err(Errno::INTR) => {}
                // A full queue, an interface that is down, a frame longer than its MTU, or one that the kernel finds fault
                // with: whoever sends something must not be able to take the port out of use.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::MSGSIZE | Errno::INVAL) => {
                    self.meter.count_all_dropped(message.frames as u64);
                    first += 1;
                }
                Err(errno) => {
                    self.clear();
                    return Err(errno);
                }
            }
        }
        self.clear();
        Ok(())
    }

    /// Tells the kernel of which messages it is to think as many frames.
    fn mark(&mut self) {
        for message in self.messages.iter().filter(|message| message.frames > 1) {
            let Some(bytes) = self.bytes.get_mut(message.place.clone()) else { continue };
            let Some((offload, frame)) = bytes.split_first_chunk_mut::<OFFLOAD_BYTES>() else { continue };
            let payload = frame.len() - HEADER_BYTES;
            let Some((header, _)) = frame.split_first_chunk_mut::<HEADER_BYTES>() else { continue };
            *offload = Offload::datagrams(datagram::payload(header) as u16).to_bytes();
            datagram::set_payload(header, payload);
            datagram::leave_checksum(header);
        }
    }

    /// One system call for the messages from the one numbered `first` on. Returns how many of them were sent;
    /// an error is about the first one.
    fn send_from(&self, first: usize, socket: &OwnedFd) -> Result<usize, Errno> {
        let count = (self.messages.len() - first).min(BATCH);
        if count == 1 {
            return rustix::net::send(socket, self.message(first), SendFlags::DONTWAIT).map(|_| 1);
        }
        let mut parts: [_; BATCH] = std::array::from_fn(|index| {
            ([IoSlice::new(self.message(first + index))], SendAncillaryBuffer::default())
        });
        let mut messages = parts.each_mut().map(|(frame, nothing)| MMsgHdr::new(frame, nothing));
        sendmmsg(socket, &mut messages[..count], SendFlags::DONTWAIT)
    }

    /// The message of that number; an empty one behind the last.
    fn message(&self, number: usize) -> &[u8] {
        let message = self.messages.get(number);
        message.and_then(|message| self.bytes.get(message.place.clone())).unwrap_or_default()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
        self.frames = 0;
    }
}
