//! A training process that uses a parameter server through its host's agent.

use tributary_client::{ClientError, Segment, Step, Training};

/// The number of the model's parameters.
pub(crate) const PARAMETERS: usize = 5;

/// A training process with its session and memory.
pub(crate) struct Process {
    pub(crate) training: Training,
    pub(crate) gradient: Segment,
    pub(crate) parameters: Segment,
    pub(crate) step: Step,
}

impl Process {
    pub(crate) async fn start(mut training: Training) -> Result<Self, ClientError> {
        let bytes = PARAMETERS * size_of::<f32>();
        let gradient = training.segment(bytes).await?;
        let mut parameters = training.segment(bytes).await?;
        parameters.elements_mut::<f32>()?.fill(100.0);
        let step = training.begin(&mut parameters).await?;
        Ok(Self { training, gradient, parameters, step })
    }

    /// Pushes a gradient whose elements all have this value.
    pub(crate) async fn push(&mut self, value: f32) -> Result<(), ClientError> {
        self.gradient.elements_mut::<f32>()?.fill(value);
        self.step = self.training.push(&mut self.gradient, &mut self.parameters).await?;
        Ok(())
    }

    pub(crate) fn parameters(&self) -> &[f32] {
        self.parameters.elements().unwrap()
    }
}
