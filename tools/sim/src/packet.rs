//! Packets in the form in which the simulated network carries them.

use std::rc::Rc;

use tributary_wire::frame::ENCAPSULATION_BYTES;
use tributary_wire::message::message_len;
use tributary_wire::{Header, Hop, ValuesView, values};

/// The values of a slice in wire format: big-endian.
pub(crate) type Values = Rc<[u8]>;

/// A packet. Its copies share the memory of the values.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) header: Header,
    /// The worker's whole hop stack on the path up.
    ///
    /// It is empty on the path down, because the tree determines that path.
    pub(crate) stack: Rc<[Hop]>,
    /// Number of entries left on the stack.
    pub(crate) hops: usize,
    /// The slice's values; `None` in a PROBE.
    pub(crate) values: Option<Values>,
}

impl Packet {
    /// Returns the length of the frame, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let values = self.values.as_ref().map_or(0, |bytes| bytes.len());
        (ENCAPSULATION_BYTES + message_len(self.hops, values)) as u64
    }

    /// Returns the hop entry of the node that has the packet.
    pub(crate) fn hop(&self) -> Option<Hop> {
        self.stack.get(self.stack.len().checked_sub(self.hops)?).copied()
    }
}

/// Encodes a slice's values in wire format.
pub(crate) fn encode(slice: &[i32]) -> Values {
    values::to_bytes(slice).into()
}

/// Returns a receiver's view of `values`.
pub(crate) fn view(values: &Values) -> ValuesView<'_> {
    ValuesView::new(values)
}
