//! A codec that encodes a gradient as a whole or in arbitrary parts.

use std::ops::Range;

use tributary_codec::{Codec, EncodeError, Residual};

/// The encoder of one server's range.
pub(super) struct Encoder {
    codec: Box<dyn Codec>,
    /// The residual of error feedback for each value of the range. If it is empty, all residuals are 0.
    owed: Vec<f32>,
    length: usize,
}

/// Encoded values, and the state from before they were encoded.
pub(super) struct Encoded {
    pub(super) code: Vec<u8>,
    /// The previous residuals of the part's values. Empty if there were none, or if the part is the whole
    /// range, which is always sent.
    pub(super) owed: Vec<f32>,
}

impl Encoder {
    /// Creates an encoder for a range of `length` values.
    pub(super) fn new(codec: Box<dyn Codec>, length: usize) -> Self {
        Self { codec, owed: Vec::new(), length }
    }

    /// Encodes the values of a part. With error feedback, the codec first adds each value's residual to the
    /// value.
    ///
    /// # Errors
    /// The codec cannot encode the values. The encoder is then unchanged.
    pub(super) fn encode(&mut self, values: &[f32], part: Range<usize>) -> Result<Encoded, EncodeError> {
        let before = self.owed.get(part.clone()).unwrap_or_default().to_vec();
        if let Some(residual) = self.codec.residual() {
            *residual = Residual::new(before.clone());
        }
        let code = self.codec.encode(values)?;
        let Some(residual) = self.codec.residual() else { return Ok(Encoded { code, owed: Vec::new() }) };
        self.owed.resize(self.length, 0.0);
        self.owed[part.clone()].copy_from_slice(residual.owed());
        *residual = Residual::default();
        let owed = if part.len() == self.length { Vec::new() } else { before };
        Ok(Encoded { code, owed })
    }

    /// Drops all residuals, because they belong to gradients that the server has lost.
    pub(super) fn forget(&mut self) {
        self.owed = Vec::new();
    }

    /// Restores the residuals of a part that was encoded but will not be used. `owed` is [`Encoded::owed`].
    pub(super) fn restore(&mut self, part: Range<usize>, owed: &[f32]) {
        let Some(present) = self.owed.get_mut(part) else { return };
        if owed.len() == present.len() {
            present.copy_from_slice(owed);
        } else {
            present.fill(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use tributary_codec::{Kind, decode};

    use super::*;

    fn encoder() -> Encoder {
        let kind: Kind = "casq-4-ef".parse().unwrap();
        Encoder::new(kind.codec(1), 40)
    }

    fn gradient() -> Vec<f32> {
        (0_u8..40).map(|place| (f32::from(place) * 0.7).sin()).collect()
    }

    #[test]
    fn each_value_gets_what_is_owed_to_it_whatever_the_parts() {
        let (mut encoder, gradient) = (encoder(), gradient());
        let mut arrived = [0.0; 40];
        for cuts in [&[0, 40][..], &[0, 13, 40], &[0, 1, 29, 40], &[0, 40]] {
            for cut in cuts.windows(2) {
                let part = cut[0]..cut[1];
                let encoded = encoder.encode(&gradient[part.clone()], part.clone()).unwrap();
                let values = decode(&encoded.code, part.len()).unwrap();
                arrived[part].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        for ((sum, owed), value) in arrived.iter().zip(&encoder.owed).zip(gradient) {
            assert!((sum + owed - 4.0 * value).abs() < 1e-5, "{sum} and {owed} of four times {value}");
        }
    }

    #[test]
    fn for_what_does_not_go_out_nothing_is_owed() {
        let (mut encoder, gradient) = (encoder(), gradient());
        let first = encoder.encode(&gradient[..20], 0..20).unwrap();
        encoder.restore(0..20, &first.owed);
        assert_eq!(encoder.owed, [0.0; 40]);
        encoder.encode(&gradient, 0..40).unwrap();
        let before = encoder.owed.clone();
        let second = encoder.encode(&gradient[10..], 10..40).unwrap();
        assert_ne!(encoder.owed, before);
        encoder.restore(10..40, &second.owed);
        assert_eq!(encoder.owed, before);
    }
}
