//! Error feedback: the part of a gradient that its code leaves out is added to the next gradient.

use crate::codec::Codec;
use crate::decode::decode_into;
use crate::error::EncodeError;
use crate::kind::Kind;
use crate::shared::Sketch;

/// Any codec with error feedback (Seide et al., "1-Bit Stochastic Gradient Descent", 2014; for why it
/// converges see Karimireddy et al., "Error Feedback Fixes SignSGD", 2019).
///
/// Each value then reaches the model sooner or later, so that even a codec with a constant bias does not lead astray.
/// It costs one decoding for each encoding and as much memory as the gradient.
#[derive(Debug, Clone)]
pub struct ErrorFeedback<C> {
    codec: C,
    residual: Residual,
}

/// The residual: the sum of what codes have left out of earlier gradients.
#[derive(Debug, Clone, Default)]
pub struct Residual {
    owed: Vec<f32>,
}

impl Residual {
    /// A residual with these values.
    pub fn new(owed: Vec<f32>) -> Self {
        Self { owed }
    }

    /// The residual of each value of the gradient; empty before the first gradient.
    pub fn owed(&self) -> &[f32] {
        &self.owed
    }

    /// The gradient plus the residual, to be sent.
    /// The first gradient, or one of another length, is returned unchanged.
    pub fn added_to(&self, gradient: &[f32]) -> Vec<f32> {
        if self.owed.len() != gradient.len() {
            return gradient.to_vec();
        }
        gradient.iter().zip(&self.owed).map(|(value, owed)| value + owed).collect()
    }

    /// Sets the residual to the `wanted` values minus those that were `sent`; both have the same length.
    pub fn set(&mut self, mut wanted: Vec<f32>, sent: &[f32]) {
        wanted.iter_mut().zip(sent).for_each(|(wanted, sent)| *wanted -= sent);
        self.owed = wanted;
    }
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

impl Codec for Box<dyn Codec> {
    fn kind(&self) -> Kind {
        (**self).kind()
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        (**self).encode(gradient)
    }

    fn propose(&mut self, gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        (**self).propose(gradient)
    }

    fn agree(&mut self, sum: &Sketch) -> Result<(), EncodeError> {
        (**self).agree(sum)
    }

    fn residual(&mut self) -> Option<&mut Residual> {
        (**self).residual()
    }
}
