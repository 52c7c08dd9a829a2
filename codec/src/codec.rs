//! What a codec is.

use crate::error::EncodeError;
use crate::feedback::Residual;
use crate::kind::Kind;
use crate::shared::Sketch;

/// One worker's encoder.
///
/// It may keep state from one gradient to the next (random numbers, what error feedback still owes), so
/// every worker has its own. Decoding needs none: see [`decode`](crate::decode).
pub trait Codec: Send {
    /// Which codec this is.
    fn kind(&self) -> Kind;

    /// The code of a gradient.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] with the position of the first NaN or infinity; nothing has changed then.
    /// [`EncodeError::TooLong`], and [`EncodeError::NoCodebook`] of a codec that needs
    /// [`agree`](Self::agree) first.
    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError>;

    /// What the workers have to add up before they can encode this round's gradients, if this codec makes
    /// them agree on something. Each worker then gives the sum to [`agree`](Self::agree).
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn propose(&mut self, _gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        Ok(None)
    }

    /// Takes the sum of all workers' sketches. What follows from it depends on nothing else, so workers that
    /// are given the same sum agree.
    ///
    /// # Errors
    /// [`EncodeError::EmptySketch`].
    fn agree(&mut self, _sum: &Sketch) -> Result<(), EncodeError> {
        Ok(())
    }

    /// What error feedback owes to the model, which belongs into a worker's checkpoint; `None`: this codec has none.
    fn residual(&mut self) -> Option<&mut Residual> {
        None
    }
}
