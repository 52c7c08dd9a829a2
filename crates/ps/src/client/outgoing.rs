//! A gradient on its way to one server, in one piece or in parts.

use std::ops::Range;
use std::sync::Arc;

use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{EndParts, Push, PushPart};
use tributary_codec::EncodeError;

use super::encoder::{Encoded, Encoder};

/// A gradient that no step has answered yet.
/// It is kept until then, as a session may break and a sum may fail.
pub(super) struct Outgoing {
    pub(super) iteration: u64,
    /// The values; zeros where none has come yet.
    values: Arc<[f32]>,
    pieces: Vec<Piece>,
    /// True once all values have come.
    is_whole: bool,
    /// Number of pieces that have been sent in this session.
    sent: usize,
    /// True once the server knows that these are all pieces.
    is_pushed: bool,
}

/// Values that are sent together.
struct Piece {
    range: Range<usize>,
    /// The code, made only once: error feedback must not count the values twice.
    encoded: Option<Encoded>,
}

impl Outgoing {
    /// A gradient that is whole.
    pub(super) fn whole(iteration: u64, values: Arc<[f32]>) -> Self {
        let pieces = vec![Piece { range: 0..values.len(), encoded: None }];
        Self { iteration, values, pieces, is_whole: true, sent: 0, is_pushed: false }
    }

    /// Creates a gradient of `length` values, none of which has come yet.
    pub(super) fn begin(iteration: u64, length: usize) -> Self {
        let values = std::iter::repeat_n(0.0, length).collect();
        Self { iteration, values, pieces: Vec::new(), is_whole: false, sent: 0, is_pushed: false }
    }

    /// Adds a part; the caller has checked that it is inside and overlaps no other part.
    pub(super) fn add(&mut self, first: usize, part: &[f32]) {
        let range = first..first + part.len();
        // No other reference exists before the gradient is whole, so this copies nothing.
        Arc::make_mut(&mut self.values)[range.clone()].copy_from_slice(part);
        self.pieces.push(Piece { range, encoded: None });
    }

    /// Ends the parts: the gradient is whole.
    pub(super) fn end(&mut self) {
        self.is_whole = true;
    }

    /// The gradient, if it is whole.
    pub(super) fn gradient(&self) -> Option<&Arc<[f32]>> {
        self.is_whole.then_some(&self.values)
    }

    /// Returns true if any piece was sent to the server.
    pub(super) fn any_sent(&self) -> bool {
        self.sent > 0
    }

    /// The session is over: in the next one everything has to be sent again.
    pub(super) fn go_back(&mut self) {
        (self.sent, self.is_pushed) = (0, false);
    }

    /// The next message for the server, or `None` if everything that has come was sent.
    /// `updates` is the number of updates in the parameters from which the gradient was computed.
    ///
    /// # Errors
    /// The next piece cannot be encoded.
    pub(super) fn next(
        &mut self,
        encoder: &mut Encoder,
        updates: u64,
    ) -> Result<Option<Message>, EncodeError> {
        let iteration = self.iteration;
        let Some(Piece { range, encoded }) = self.pieces.get_mut(self.sent) else {
            let is_end = self.is_whole && !self.is_pushed;
            self.is_pushed |= is_end;
            return Ok(is_end.then_some(Message::EndParts(EndParts { iteration, updates })));
        };
        let code = match encoded {
            Some(encoded) => encoded.code.clone(),
            None => encoded.insert(encoder.encode(&self.values[range.clone()], range.clone())?).code.clone(),
        };
        self.sent += 1;
        if self.is_whole && range.len() == self.values.len() {
            self.is_pushed = true;
            return Ok(Some(Message::Push(Push { iteration, updates, code })));
        }
        let (first, length) = (range.start as u64, range.len() as u64);
        Ok(Some(Message::PushPart(PushPart { first, length, code })))
    }

    /// Drops the gradient, and restores the residuals from before it was encoded.
    pub(super) fn undo(self, encoder: &mut Encoder) {
        for Piece { range, encoded } in self.pieces {
            if let Some(Encoded { owed, .. }) = encoded {
                encoder.restore(range, &owed);
            }
        }
    }
}
