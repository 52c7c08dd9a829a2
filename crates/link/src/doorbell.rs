//! Wakes a receiver that waits on a [`mio::Poll`], but only if the receiver may be asleep.
//!
//! A system call for each frame would cost more than the frame. So the receiver *arms* the bell when it has found no
//! frame, and the sender rings only an armed bell. No wake-up is lost, because each side first writes its own variable
//! and then reads the variable of the other side, with a sequentially consistent fence in between:
//!
//! ```text
//! sender                          receiver
//! put the frame in the queue      asleep = true
//! fence                           fence
//! asleep? then ring               frame in the queue? then take it, else wait
//! ```
//!
//! One of the two fences comes first in the single order of all such fences. If the sender's fence is first, the
//! receiver's check of the queue finds the frame. If the receiver's fence is first, the sender finds `asleep` and
//! rings. (Both may happen; the receiver then wakes up once without need.) A ring between the receiver's last check and
//! its wait is not lost either, because the event descriptor stays readable, and the next poll reports the edge of the
//! write.
//!
//! The bell has its own event descriptor instead of a [`mio::Waker`], because a `Poll` may have only one waker, and a
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
    /// Creates an armed bell, so that the receiver may wait immediately.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { asleep: AtomicBool::new(true), event })
    }

    /// Rings the bell if the receiver may be asleep. The sender calls it after it has put frames in the
    /// queue.
    pub(crate) fn ring_if_asleep(&self) -> io::Result<()> {
        fence(Ordering::SeqCst);
        // The plain load keeps the cache line shared while the receiver is busy.
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            return self.ring();
        }
        Ok(())
    }

    /// Arms the bell. The receiver calls it before its last check of the queue.
    pub(crate) fn arm(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Disarms the bell, because the last check of the queue has found a frame.
    pub(crate) fn disarm(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Registers the bell with the receiver's poll. Rings once, in case frames have already arrived.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut SourceFd(&self.event.as_raw_fd()), token, Interest::READABLE)?;
        self.ring()
    }

    /// Makes the descriptor readable. No thread reads the descriptor, because every write causes an edge,
    /// and 2^64 writes do not happen.
    fn ring(&self) -> io::Result<()> {
        rustix::io::write(&self.event, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}
