//! Wakes a receiver that waits on a [`mio::Poll`], only when it may be asleep.
//!
//! A system call for each frame would cost more than the frame. So the receiver says when it has found nothing (it
//! *arms* the bell), and the sender rings only an armed bell. No wake-up is lost, because each side first writes and
//! then reads what the other one writes, with a sequentially consistent fence in between:
//!
//! ```text
//! sender                          receiver
//! put the frame in the queue      asleep = true
//! fence                           fence
//! asleep? then ring               frame in the queue? then take it, else wait
//! ```
//!
//! One of the two fences comes first in the single order of all such fences. If the sender's fence is first, the
//! receiver's check of the queue finds the frame; if the receiver's fence is first, the sender finds `asleep` and
//! rings. (Both may happen: then the receiver wakes up once without need.) A ring between the receiver's last check and
//! its wait is not lost either: the event descriptor stays readable, and the next poll reports the edge that the write
//! makes.
//!
//! The bell is an event descriptor of its own and not a [`mio::Waker`], because a `Poll` may have only one waker, and a
//! switch waits for all of its ports with one `Poll`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::event::{EventfdFlags, eventfd};

#[derive(Debug)]
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    event: OwnedFd,
}

impl Doorbell {
    /// An armed bell: the receiver may begin with waiting.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { asleep: AtomicBool::new(true), event })
    }

    /// Rings if the receiver may be asleep. The sender calls it after it has put frames in the queue.
    pub(crate) fn ring_if_asleep(&self) -> io::Result<()> {
        fence(Ordering::SeqCst);
        // The plain load keeps the cache line shared while the receiver is busy.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            return self.ring();
        }
        Ok(())
    }

    /// Arms the bell. The receiver calls it before its last look at the queue.
    pub(crate) fn arm(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Disarms the bell: the receiver has found something after all.
    pub(crate) fn disarm(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Connects the bell with the receiver's poll. Rings once, for frames that came before.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.event.as_raw_fd()), token, Interest::READABLE)?;
        self.ring()
    }

    /// Makes the descriptor readable.
    /// No thread reads it: every write is an edge, and 2^64 writes do not happen.
    fn ring(&self) -> io::Result<()> {
        rustix::io::write(&self.event, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}
