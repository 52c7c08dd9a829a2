//! A pair of virtual Ethernet interfaces with a port at each end, in the test's own network
//! namespace.

use std::time::Duration;

use mio::{Events, Poll, Token};
use tributary_link::{FramePort, InterfacePort};
use tributary_testkit::netns;

/// The addresses of the tests' frames, which no other frames have.
pub(crate) const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

/// Much longer than any step of these tests takes on any machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Two ports on a cable, and the poll that reports frames at the right port.
pub(crate) struct Cable {
    pub(crate) left: InterfacePort,
    pub(crate) right: InterfacePort,
    pub(crate) poll: Poll,
}

impl Cable {
    /// Creates a cable; `None` if that is not possible.
    pub(crate) fn new() -> Option<Self> {
        netns::enter_with_veth_pair("left", "right").then(Self::open)
    }

    /// Opens ports on existing interfaces.
    pub(crate) fn open() -> Self {
        let [left, mut right] = ["left", "right"].map(|name| InterfacePort::open(name).unwrap());
        let poll = Poll::new().unwrap();
        right.register(poll.registry(), Token(1)).unwrap();
        Self { left, right, poll }
    }

    /// Waits for the next frame of the test.
    pub(crate) fn receive(&mut self) -> Vec<u8> {
        self.receive_one(is_ours)
    }

    /// Waits for the next frame that satisfies `is_meant`.
    pub(crate) fn receive_one(&mut self, is_meant: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut events = Events::with_capacity(8);
        loop {
            if let Some(frame) = next(&mut self.right, &is_meant) {
                return frame;
            }
            self.poll.poll(&mut events, Some(PATIENCE)).unwrap();
            assert!(!events.is_empty(), "no frame within {PATIENCE:?}");
        }
    }
}

pub(crate) fn is_ours(frame: &[u8]) -> bool {
    frame[..12] == ADDRESSES
}

/// Returns the next frame that satisfies `is_meant`, if it has already arrived.
/// Skips the kernel's own frames on a new interface.
pub(crate) fn next(port: &mut InterfacePort, is_meant: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    while let Some(frame) = port.receive().unwrap() {
        if is_meant(frame) {
            return Some(frame.to_vec());
        }
    }
    None
}
