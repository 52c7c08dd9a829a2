//! A gradient for one server, as a whole or in parts.

use std::ops::Range;
use std::sync::Arc;

use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{EndParts, Push, PushPart};
use tributary_codec::EncodeError;

use super::encoder::{Encoded, Encoder};

/// A gradient that no step has answered yet. The worker keeps it until then, because it must send the
/// gradient again if a session breaks or a sum fails.
pub(super) struct Outgoing {
    pub(super) iteration: u64,
    /// The values; 0 where a part is still missing.
    values: Arc<[f32]>,
    pieces: Vec<Piece>,
    /// True once all values are present.
    is_whole: bool,
    /// Number of pieces that have been sent in this session.
    sent: usize,
    /// True once the server knows that it has received all pieces.
    is_pushed: bool,
}

/// Values that are sent together.
struct Piece {
    range: Range<usize>,
    /// The code. The piece is encoded only once, because error feedback must not count the values twice.
    encoded: Option<Encoded>,
}

impl Outgoing {
    /// Creates a gradient whose values are all present.
    pub(super) fn whole(iteration: u64, values: Arc<[f32]>) -> Self {
        let pieces = vec![Piece { range: 0..values.len(), encoded: None }];
        Self { iteration, values, pieces, is_whole: true, sent: 0, is_pushed: false }
    }

    /// Creates a gradient of `length` values without any part.
    pub(super) fn begin(iteration: u64, length: usize) -> Self {
        let values = std::iter::repeat_n(0.0, length).collect();
        Self { iteration, values, pieces: Vec::new(), is_whole: false, sent: 0, is_pushed: false }
    }

    /// Adds a part. The caller has checked that it is within the gradient and overlaps no other part.
    pub(super) fn add(&mut self, first: usize, part: &[f32]) {
        let range = first..first + part.len();
        // No other reference exists before the gradient is whole, so this copies nothing.
        Arc::make_mut(&mut self.values)[range.clone()].copy_from_slice(part);
        self.pieces.push(Piece { range, encoded: None });
    }

    /// Marks the gradient as whole after its last part.
    pub(super) fn end(&mut self) {
        self.is_whole = true;
    }

    /// Returns the gradient if it is whole.
    pub(super) fn gradient(&self) -> Option<&Arc<[f32]>> {
        self.is_whole.then_some(&self.values)
    }

    /// Returns true if any piece was sent to the server.
    pub(super) fn any_sent(&self) -> bool {
        self.sent > 0
    }

    /// Marks everything as unsent, because the session has ended.
    pub(super) fn go_back(&mut self) {
        (self.sent, self.is_pushed) = (0, false);
    }

    /// Returns the next message for the server, or `None` if all present values were sent. `updates` is the
    /// number of updates in the parameters from which the gradient was computed.
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

    /// Drops the gradient, and restores the residuals from before its pieces were encoded.
    pub(super) fn undo(self, encoder: &mut Encoder) {
        for Piece { range, encoded } in self.pieces {
            if let Some(Encoded { owed, .. }) = encoded {
                encoder.restore(range, &owed);
            }
        }
    }
}
