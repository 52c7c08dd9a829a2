//! Requests that a packet makes while a control runs. The switch carries them out at the end of the
//! control. If there are several requests of a kind, only the last one is carried out, as on BMv2.

/// BMv2 keeps the low 15 bits of a clone session's number.
const SESSION_BITS: u64 = 0x7fff;

/// The requests of one packet. Each list is the index of a field list, whose fields are preserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    /// The clone session, and the list of preserved fields.
    pub(crate) clone: Option<(u16, u16)>,
    pub(crate) resubmit: Option<u16>,
    pub(crate) recirculate: Option<u16>,
    /// Index of the statement that sends a digest to the controller.
    pub(crate) digest: Option<u16>,
}

impl Requests {
    pub(super) fn clone_to(&mut self, session: u64, list: u16) {
        self.clone = Some(((session & SESSION_BITS) as u16, list));
    }

    /// Returns true if the packet made no request.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
