//! How a worker reaches its parameter servers: by itself, or through the agent of its host.

use anyhow::Result;
use tributary_client::{Agent, Segment, Training, TrainingOptions};
use tributary_ps::client::{Client, ClientOptions, Step};

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
    pub(super) updates: u64,
    pub(super) parameters: Vec<f32>,
}

impl From<Step> for Position {
    fn from(Step { iteration, updates, parameters, .. }: Step) -> Self {
        Self { iteration, updates, parameters }
    }
}

impl Way {
    /// Joins a job without an agent.
    pub(super) async fn by_itself(options: ClientOptions, initial: &[f32]) -> Result<(Self, Position)> {
        let (client, step) = Client::join(options, initial).await?;
        Ok((Self::Itself(client), step.into()))
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
        let step = training.begin(&mut parameters).await?;
        let shared = Shared { training, gradient, parameters };
        let position = shared.position(step)?;
        Ok((Self::Agent(Box::new(shared)), position))
    }

    /// Hands a gradient in and waits for the next step.
    pub(super) async fn push(&mut self, gradient: &[f32]) -> Result<Position> {
        match self {
            Self::Itself(client) => Ok(client.push(gradient).await?.into()),
            Self::Agent(shared) => {
                let Shared { training, gradient: segment, parameters } = &mut **shared;
                segment.elements_mut::<f32>()?.copy_from_slice(gradient);
                let step = training.push(segment, parameters).await?;
                shared.position(step)
            }
        }
    }
}

impl Shared {
    fn position(&self, step: tributary_client::Step) -> Result<Position> {
        let parameters = self.parameters.elements::<f32>()?.to_vec();
        Ok(Position { iteration: step.iteration, updates: step.updates, parameters })
    }
}
