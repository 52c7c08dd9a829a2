//! The trait of codecs.

use crate::error::EncodeError;
use crate::kind::Kind;
use crate::residual::Residual;
use crate::shared::Sketch;

/// One worker's encoder.
///
/// It may keep state from one gradient to the next (random numbers, the residual of error feedback), so every worker
/// has its own. Decoding needs no state: see [`decode`](crate::decode).
pub trait Codec: Send {
    /// The codec's name.
    fn kind(&self) -> Kind;

    /// Encodes a gradient.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] with the position of the first NaN or infinity; the codec's state is then unchanged.
    /// [`EncodeError::TooLong`]; [`EncodeError::NoCodebook`] if the codec needs [`agree`](Self::agree) first.
    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError>;

    /// The sketch that the workers have to sum before they can encode this round's gradients; `None` if
    /// this codec needs no agreement. Each worker then passes the sum to [`agree`](Self::agree).
    ///
    /// # Errors
    /// The errors of [`encode`](Self::encode).
    fn propose(&mut self, _gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        Ok(None)
    }

    /// Takes the sum of all workers' sketches.
    /// The agreement depends on nothing else, so workers with the same sum agree.
    ///
    /// # Errors
    /// [`EncodeError::EmptySketch`].
    fn agree(&mut self, _sum: &Sketch) -> Result<(), EncodeError> {
        Ok(())
    }

    /// The residual of error feedback, which belongs in a worker's checkpoint; `None`: this codec has none.
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
