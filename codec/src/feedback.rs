//! Error feedback: what a code leaves out of one gradient is added to the next.

use crate::codec::Codec;
use crate::decode::decode_into;
use crate::error::EncodeError;
use crate::kind::Kind;
use crate::shared::Sketch;

/// Any codec, with what it has not sent yet remembered (Seide et al., "1-Bit Stochastic Gradient Descent",
/// 2014; why it converges: Karimireddy et al., "Error Feedback Fixes SignSGD", 2019).
///
/// Each value then reaches the model sooner or later, so that a codec which is wrong the same way each time
/// does not lead astray. It costs a decoding for each encoding and as much memory as the gradient.
#[derive(Debug, Clone)]
pub struct ErrorFeedback<C> {
    codec: C,
    residual: Residual,
}

/// What has been left out of gradients so far, and is owed to the model.
#[derive(Debug, Clone, Default)]
pub struct Residual {
    owed: Vec<f32>,
}

impl Residual {
    /// One that owes this.
    pub fn new(owed: Vec<f32>) -> Self {
        Self { owed }
    }

    /// What is owed, a value for each of the gradient's; none before the first one.
    pub fn owed(&self) -> &[f32] {
        &self.owed
    }

    /// What to send: the gradient, and what is owed. Nothing is, to the first gradient or one of another model.
    pub fn added_to(&self, gradient: &[f32]) -> Vec<f32> {
        if self.owed.len() != gradient.len() {
            return gradient.to_vec();
        }
        gradient.iter().zip(&self.owed).map(|(value, owed)| value + owed).collect()
    }

    /// From now on, what is owed is what was to be sent less what has been `sent`, of the same length.
    pub fn set(&mut self, mut wanted: Vec<f32>, sent: &[f32]) {
        wanted.iter_mut().zip(sent).for_each(|(wanted, sent)| *wanted -= sent);
        self.owed = wanted;
    }
}

impl<C: Codec> ErrorFeedback<C> {
    /// Feedback around `codec`, which owes nothing yet.
    pub fn new(codec: C) -> Self {
        Self { codec, residual: Residual::default() }
    }
}

impl<C: Codec> Codec for ErrorFeedback<C> {
    /// That of the codec, with feedback; `none` and `casq-4-shared` have no other name then.
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
