//! The sending half of a port. One system call gathers many frames and sends them.
//! They pass through the interface's queueing discipline or [bypass](super::xdp) it.
//!
//! A port may join neighbouring datagrams of one stream, as the kernel joins TCP segments. They pass queues and virtual
//! cables as one frame, which is [split](super::joined) where single frames are needed.

use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use super::datagram::{self, HEADER_BYTES, Headers};
use super::offload::{OFFLOAD_BYTES, Offload};
use super::segmentation::Segmentation;
use super::xdp::XdpSender;
use crate::meter::DirectionMeter;

/// The rule for joining frames.
#[derive(Debug, Clone, Copy)]
struct Joins {
    /// The longest frame that may be joined with others, in bytes.
    longest: usize,
    limits: Segmentation,
}

/// The sending half of a port.
#[derive(Debug)]
pub(super) struct PortSender {
    through_queue: PacketSender,
    /// The sender that bypasses the interface's queueing discipline; `None` if all frames pass through
    /// the discipline.
    bypass: Option<XdpSender>,
    meter: DirectionMeter,
}

impl PortSender {
    /// Creates the sending half of a port. `socket` must expect offload information in front of each
    /// frame.
    pub(super) fn new(socket: OwnedFd, meter: DirectionMeter) -> Self {
        Self { through_queue: PacketSender { socket, joins: None }, bypass: None, meter }
    }

    /// Lets the port join frames of at most `longest` bytes, up to these limits.
    pub(super) fn put_together(&mut self, longest: usize, limits: Segmentation) {
        self.through_queue.joins = Some(Joins { longest, limits });
    }

    /// Lets frames bypass the queueing discipline with this sender, except frames that are too long for
    /// it.
    pub(super) fn bypass_queue(&mut self, sender: XdpSender) {
        self.bypass = Some(sender);
    }

    /// Passes frames to the kernel, by one system call if the kernel accepts all of them. Frames that it
    /// does not accept are dropped and counted.
    pub(super) fn send(&mut self, frames: &[&[u8]]) -> Result<(), Errno> {
        let Some(bypass) = &mut self.bypass else { return self.through_queue.send(frames, &self.meter) };
        let longest = bypass.longest();
        let fits = |frame: &[u8]| frame.len() <= longest;
        for run in frames.chunk_by(|one, next| fits(one) == fits(next)) {
            match run.first() {
                Some(first) if fits(first) => bypass.send(run, &self.meter)?,
                _ => self.through_queue.send(run, &self.meter)?,
            }
        }
        Ok(())
    }
}

/// A socket that sends through the interface's queueing discipline.
#[derive(Debug)]
struct PacketSender {
    socket: OwnedFd,
    /// The rule for joining frames; `None` if frames are not joined.
    joins: Option<Joins>,
}

impl PacketSender {
    fn send(&self, frames: &[&[u8]], meter: &DirectionMeter) -> Result<(), Errno> {
        let batch = Batch::new(frames, self.joins);
        let mut messages = batch.messages.as_slice();
        while let Some(message) = messages.first() {
            match batch.send(messages, &self.socket) {
                Ok(sent) => {
                    let (sent, rest) = messages.split_at(sent.min(messages.len()));
                    messages = rest;
                    let frames = sent.iter().map(|message| message.frames.len()).sum();
                    let bytes = sent.iter().map(|message| batch.bytes_of(message)).sum();
                    meter.count_all_carried(frames, bytes);
                }
                Err(Errno::INTR) => {}
                // The queue is full, the interface is down, the frame is longer than its MTU, or the kernel finds an
                // error in the frame. The port drops the frame and continues, because the senders of frames must not be
                // able to stop it.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::MSGSIZE | Errno::INVAL) => {
                    meter.count_all_dropped(message.frames.len() as u64);
                    messages = messages.get(1..).unwrap_or_default();
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Frames, and the messages in which they are sent.
struct Batch<'a> {
    frames: &'a [&'a [u8]],
    messages: Vec<Message>,
}

/// A message to the kernel: one frame, or many frames joined into one.
struct Message {
    /// The indexes of the message's frames.
    frames: Range<usize>,
    /// The length of the message as one frame, in bytes.
    len: usize,
    /// The most payload bytes that a further datagram may have; `None` if no further datagram can be
    /// joined.
    takes: Option<usize>,
    head: MessageHead,
}

/// The bytes in front of a message's frames. If they include headers, the frames are sent without
/// their own headers.
struct MessageHead {
    bytes: [u8; OFFLOAD_BYTES + HEADER_BYTES],
    /// The number of header bytes that `bytes` includes.
    headers: usize,
}

impl MessageHead {
    /// Returns the head of a single frame, which is the offload information.
    fn of_one(frame: &[u8]) -> Self {
        Self::new(Offload::single(frame.len()), &[])
    }

    /// Returns the head of joined frames, which includes their common headers. `first` are the headers of
    /// the first frame, and `len` is the length of the joined frame in bytes.
    fn of_many(first: Headers, len: usize) -> Self {
        let mut headers = first;
        let offload = Offload::datagrams(first.payload() as u16);
        headers.set_payload(len - HEADER_BYTES);
        headers.leave_checksum();
        Self::new(offload, headers.bytes())
    }

    fn new(offload: Offload, headers: &[u8]) -> Self {
        let mut bytes = [0; OFFLOAD_BYTES + HEADER_BYTES];
        let head = offload.to_bytes().into_iter().chain(headers.iter().copied());
        bytes.iter_mut().zip(head).for_each(|(to, from)| *to = from);
        Self { bytes, headers: headers.len() }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..OFFLOAD_BYTES + self.headers).unwrap_or_default()
    }
}

impl<'a> Batch<'a> {
    fn new(frames: &'a [&'a [u8]], joins: Option<Joins>) -> Self {
        let mut batch = Self { frames, messages: Vec::with_capacity(frames.len()) };
        for (number, frame) in frames.iter().enumerate() {
            let joins = joins.filter(|joins| frame.len() <= joins.longest && datagram::is_plain(frame));
            let payload = joins.map(|_| frame.len() - HEADER_BYTES);
            if !joins.is_some_and(|Joins { limits, .. }| batch.extend_last(frame, limits)) {
                let (frames, len) = (number..number + 1, frame.len());
                batch.messages.push(Message {
                    frames,
                    len,
                    takes: payload,
                    head: MessageHead::of_one(frame),
                });
            }
        }
        for message in batch.messages.iter_mut().filter(|message| message.frames.len() > 1) {
            if let Some(first) = frames.get(message.frames.start).and_then(|first| Headers::of(first)) {
                message.head = MessageHead::of_many(first, message.len);
            }
        }
        batch
    }

    /// Joins a plain frame to the last message if that is possible. Returns true if it has joined the
    /// frame.
    fn extend_last(&mut self, frame: &[u8], limits: Segmentation) -> bool {
        let payload = frame.len() - HEADER_BYTES;
        let Some(last) = self.messages.last_mut() else { return false };
        let first = self.frames.get(last.frames.start).copied().unwrap_or_default();
        // The limits count each frame with its own headers, as queues do.
        let bytes = last.len + payload + HEADER_BYTES * last.frames.len();
        let is_taken = last.takes.is_some_and(|segment| payload <= segment)
            && bytes < limits.bytes
            && last.frames.len() < limits.frames
            && datagram::is_one_stream(first, frame);
        if is_taken {
            last.takes = last.takes.filter(|segment| payload == *segment);
            last.len += payload;
            last.frames.end += 1;
        }
        is_taken
    }

    fn frames_of(&self, message: &Message) -> &'a [&'a [u8]] {
        self.frames.get(message.frames.clone()).unwrap_or_default()
    }

    /// Returns the number of bytes of a message's frames, each with its own headers.
    fn bytes_of(&self, message: &Message) -> usize {
        self.frames_of(message).iter().map(|frame| frame.len()).sum()
    }

    /// Makes one system call, and returns the number of messages that were sent. An error concerns the
    /// first message.
    fn send(&self, messages: &[Message], socket: &OwnedFd) -> Result<usize, Errno> {
        let mut parts = Vec::with_capacity(2 * self.frames.len());
        let mut ends = Vec::with_capacity(messages.len());
        for message in messages {
            let MessageHead { headers, .. } = message.head;
            parts.push(IoSlice::new(message.head.bytes()));
            let frames = self.frames_of(message).iter();
            parts.extend(frames.map(|frame| IoSlice::new(frame.get(headers..).unwrap_or_default())));
            ends.push(parts.len());
        }
        let mut nothing: Vec<_> = messages.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let begins = [0].into_iter().chain(ends.iter().copied());
        let places = begins.zip(&ends).map(|(begin, end)| parts.get(begin..*end).unwrap_or_default());
        let mut headers: Vec<_> =
            places.zip(&mut nothing).map(|(parts, nothing)| MMsgHdr::new(parts, nothing)).collect();
        sendmmsg(socket, &mut headers, SendFlags::DONTWAIT)
    }
}
