//! How a worker reaches its parameter servers: by itself, or through the agent of its host.

use anyhow::Result;
use tributary_client::{Agent, Segment, Training, TrainingOptions};
use tributary_ps::client::{Client, ClientOptions};

/// A worker's part in a job.
pub(super) enum Way {
    Itself(Client),
    Agent(Box<Shared>),
}

/// A training with the memory that is shared with the agent.
pub(super) struct Shared {
    training: Training,
    gradient: Segment,
    parameters: Segment,
}

/// What to compute the next gradient from.
pub(super) struct Position {
    pub(super) iteration: u64,
    pub(super) parameters: Vec<f32>,
}

impl Way {
    /// Joins a job without an agent.
    pub(super) async fn by_itself(options: ClientOptions, initial: &[f32]) -> Result<(Self, Position)> {
        let (client, step) = Client::join(options, initial).await?;
        Ok((Self::Itself(client), Position { iteration: step.iteration, parameters: step.parameters }))
    }

    /// Joins a job through an agent.
    pub(super) async fn through(
        agent: &Agent,
        options: TrainingOptions,
        initial: &[f32],
    ) -> Result<(Self, Position)> {
        let mut training = agent.train(options).await?;
        let bytes = size_of_val(initial);
        let (gradient, mut parameters) = (training.segment(bytes).await?, training.segment(bytes).await?);
        parameters.elements_mut::<f32>()?.copy_from_slice(initial);
        let iteration = training.begin(&mut parameters).await?.iteration;
        let shared = Shared { training, gradient, parameters };
        let position = shared.position(iteration)?;
        Ok((Self::Agent(Box::new(shared)), position))
    }

    /// Hands a gradient in and waits for the next step.
    pub(super) async fn push(&mut self, gradient: &[f32]) -> Result<Position> {
        match self {
            Self::Itself(client) => {
                let step = client.push(gradient).await?;
                Ok(Position { iteration: step.iteration, parameters: step.parameters })
            }
            Self::Agent(shared) => {
                let Shared { training, gradient: segment, parameters } = &mut **shared;
                segment.elements_mut::<f32>()?.copy_from_slice(gradient);
                let iteration = training.push(segment, parameters).await?.iteration;
                shared.position(iteration)
            }
        }
    }
}

impl Shared {
    fn position(&self, iteration: u64) -> Result<Position> {
        Ok(Position { iteration, parameters: self.parameters.elements::<f32>()?.to_vec() })
    }
}
