//! Error feedback: the part of a gradient that its code leaves out is added to the next gradient.

use crate::codec::Codec;
use crate::decode::decode_into;
use crate::error::EncodeError;
use crate::kind::Kind;
use crate::residual::Residual;
use crate::shared::Sketch;

/// A codec with error feedback (Seide et al., "1-Bit Stochastic Gradient Descent", 2014).
/// Karimireddy et al., "Error Feedback Fixes SignSGD", 2019, prove that it converges.
///
/// With error feedback, each value reaches the model sooner or later. So even a codec with a constant bias does not
/// lead training astray. The cost is one decoding for each encoding, and memory of the size of the gradient.
#[derive(Debug, Clone)]
pub struct ErrorFeedback<C> {
    codec: C,
    residual: Residual,
}

impl<C: Codec> ErrorFeedback<C> {
    /// Adds feedback to `codec`, with an empty residual.
    pub fn new(codec: C) -> Self {
        Self { codec, residual: Residual::default() }
    }
}

impl<C: Codec> Codec for ErrorFeedback<C> {
    /// Returns the codec's name with feedback; `none` and `casq-4-shared` keep their names.
    fn kind(&self) -> Kind {
        self.codec.kind().with_feedback()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        let wanted = self.residual.added_to(gradient);
        let code = self.codec.encode(&wanted)?;
        let mut sent = vec![0.0; wanted.len()];
        decode_into(&code, &mut sent).map_err(EncodeError::Unreadable)?;
        self.residual.set(wanted, &sent);
        Ok(code)
    }

    fn propose(&mut self, gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        self.codec.propose(&self.residual.added_to(gradient))
    }

    fn agree(&mut self, sum: &Sketch) -> Result<(), EncodeError> {
        self.codec.agree(sum)
    }

    fn residual(&mut self) -> Option<&mut Residual> {
        Some(&mut self.residual)
    }
}
