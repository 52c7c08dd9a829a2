//! Frames on their way out: gathered, and sent off by one system call.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::meter::DirectionMeter;

/// Frames that one system call sends at the most. A longer batch would only make the first frame wait.
const BATCH: usize = 32;

/// Frames that wait to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// One frame behind the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    meter: DirectionMeter,
}

impl Outgoing {
    pub(super) fn new(meter: DirectionMeter) -> Self {
        Self { bytes: Vec::new(), ends: Vec::with_capacity(BATCH), meter }
    }

    pub(super) fn queue(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    /// Is it time to send?
    pub(super) fn is_full(&self) -> bool {
        self.ends.len() >= BATCH
    }

    /// Hands all frames to the kernel; those that it has no room for are dropped, and counted.
    pub(super) fn send_all(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        let mut first = 0;
        while first < self.ends.len() {
            match self.send_from(first, socket) {
                Ok(sent) => {
                    let bytes = self.begin(first + sent) - self.begin(first);
                    self.meter.count_all_carried(sent, bytes);
                    first += sent;
                }
                Err(Errno::INTR) => {}
                // A full queue, an interface that is down, a frame longer than its MTU.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NETDOWN | Errno::MSGSIZE) => {
                    self.meter.count_dropped();
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

    /// One system call for the frames from the one numbered `first` on. Returns how many of them were sent;
    /// an error is about the first one.
    fn send_from(&self, first: usize, socket: &OwnedFd) -> Result<usize, Errno> {
        let count = (self.ends.len() - first).min(BATCH);
        if count == 1 {
            return rustix::net::send(socket, self.frame(first), SendFlags::DONTWAIT).map(|_| 1);
        }
        let mut parts: [_; BATCH] = std::array::from_fn(|index| {
            ([IoSlice::new(self.frame(first + index))], SendAncillaryBuffer::default())
        });
        let mut messages = parts.each_mut().map(|(frame, nothing)| MMsgHdr::new(frame, nothing));
        sendmmsg(socket, &mut messages[..count], SendFlags::DONTWAIT)
    }

    /// The frame of that number; an empty one behind the last.
    fn frame(&self, number: usize) -> &[u8] {
        self.bytes.get(self.begin(number)..self.begin(number + 1)).unwrap_or_default()
    }

    fn begin(&self, number: usize) -> usize {
        number.checked_sub(1).map_or(0, |before| self.ends.get(before).copied().unwrap_or(self.bytes.len()))
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
