//! The residual of error feedback.

/// The residual of a gradient: the sum of the parts that codes have left out of earlier gradients.
#[derive(Debug, Clone, Default)]
pub struct Residual {
    owed: Vec<f32>,
}

impl Residual {
    /// Makes a residual with these values.
    pub fn new(owed: Vec<f32>) -> Self {
        Self { owed }
    }

    /// Returns the residual of each value of the gradient; empty before the first gradient.
    pub fn owed(&self) -> &[f32] {
        &self.owed
    }

    /// Returns the gradient plus the residual, which the codec should encode.
    /// If the gradient is the first one, or has another length, it is returned unchanged.
    pub fn added_to(&self, gradient: &[f32]) -> Vec<f32> {
        if self.owed.len() != gradient.len() {
            return gradient.to_vec();
        }
        gradient.iter().zip(&self.owed).map(|(value, owed)| value + owed).collect()
    }

    /// Sets the residual to the `wanted` values minus the `sent` values. Both must have the same length.
    pub fn set(&mut self, mut wanted: Vec<f32>, sent: &[f32]) {
        wanted.iter_mut().zip(sent).for_each(|(wanted, sent)| *wanted -= sent);
        self.owed = wanted;
    }
}
