//! The trait of codecs.

use crate::error::EncodeError;
use crate::kind::Kind;
use crate::residual::Residual;
use crate::shared::Sketch;

/// One worker's encoder.
///
/// It may keep state from one gradient to the next, such as random numbers or the residual of error feedback. So every
/// worker has its own encoder. Decoding needs no state: see [`decode`](crate::decode).
pub trait Codec: Send {
    /// Returns the codec's name.
    fn kind(&self) -> Kind;

    /// Encodes a gradient.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`], with the position of the first NaN or infinity; the codec's state is then unchanged.
    /// [`EncodeError::TooLong`] if the gradient has too many values for one code. [`EncodeError::NoCodebook`] if the
    /// codec needs [`agree`](Self::agree) first.
    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError>;

    /// Returns the sketch that the workers must sum before they can encode this round's gradients.
    /// Each worker then passes the sum to [`agree`](Self::agree). `None` if this codec needs no agreement.
    ///
    /// # Errors
    /// [`EncodeError`], as for [`encode`](Self::encode).
    fn propose(&mut self, _gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        Ok(None)
    }

    /// Derives the codebook from the sum of all workers' sketches.
    /// The result depends only on the sum, so workers with equal sums have equal codebooks.
    ///
    /// # Errors
    /// [`EncodeError::EmptySketch`] if the sum contains no values.
    fn agree(&mut self, _sum: &Sketch) -> Result<(), EncodeError> {
        Ok(())
    }

    /// Returns the residual of error feedback, which belongs in a worker's checkpoint.
    /// `None` if this codec has no residual.
    fn residual(&mut self) -> Option<&mut Residual> {
        None
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
