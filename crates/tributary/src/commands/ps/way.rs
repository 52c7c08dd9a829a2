//! A worker's access to its parameter servers: directly, or through the agent of its host.

use std::ops::Range;

use anyhow::{Context, Result};
use tributary_client::{Agent, Segment, Training, TrainingOptions};
use tributary_ps::client::{Client, ClientOptions, Step};

/// A worker's access to a job.
pub(super) enum Way {
    Itself(Client),
    Agent(Box<SharedMemoryTraining>),
}

/// A training through the agent, and the memory that it shares with the agent.
pub(super) struct SharedMemoryTraining {
    training: Training,
    /// One segment for each part of a gradient.
    gradient: Vec<Segment>,
    parameters: Segment,
}

/// The parameters for the next gradient, and the numbers of iterations and updates that they contain.
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

    /// Joins a job through an agent. `parts` are the ranges of gradients that the worker will hand in one
    /// by one.
    pub(super) async fn through(
        agent: &Agent,
        options: TrainingOptions,
        initial: &[f32],
        parts: &[Range<usize>],
    ) -> Result<(Self, Position)> {
        let mut training = agent.train(options).await?;
        let mut gradient = Vec::new();
        for part in parts {
            gradient.push(training.segment(part.len() * size_of::<f32>()).await?);
        }
        let mut parameters = training.segment(size_of_val(initial)).await?;
        parameters.elements_mut::<f32>()?.copy_from_slice(initial);
        let step = training.begin(&mut parameters).await?;
        let shared = SharedMemoryTraining { training, gradient, parameters };
        let position = shared.position(step)?;
        Ok((Self::Agent(Box::new(shared)), position))
    }

    /// Hands in a gradient, part by part, and waits for the next step.
    pub(super) async fn push(&mut self, gradient: &[f32], parts: &[Range<usize>]) -> Result<Position> {
        match self {
            Self::Itself(client) if parts.len() > 1 => {
                for part in parts {
                    client.push_part(part.start, &gradient[part.clone()])?;
                }
                Ok(client.push_parts().await?.into())
            }
            Self::Itself(client) => Ok(client.push(gradient).await?.into()),
            Self::Agent(shared) => shared.push(gradient, parts).await,
        }
    }
}

impl SharedMemoryTraining {
    async fn push(&mut self, gradient: &[f32], parts: &[Range<usize>]) -> Result<Position> {
        for (segment, part) in self.gradient.iter_mut().zip(parts) {
            segment.elements_mut::<f32>()?.copy_from_slice(&gradient[part.clone()]);
        }
        let mut handed_in: Vec<_> = self.gradient.iter_mut().zip(parts).collect();
        let (segment, last) = handed_in.pop().context("a gradient has at least one part")?;
        for (segment, part) in handed_in {
            self.training.start_push_part((segment, 0..part.len()), part.start)?.await?;
        }
        let all = 0..gradient.len();
        let rest = (segment, 0..last.len());
        let step = self.training.start_push_rest(rest, last.start, (&mut self.parameters, all))?.await?;
        self.position(step)
    }

    fn position(&self, step: tributary_client::Step) -> Result<Position> {
        let parameters = self.parameters.elements::<f32>()?.to_vec();
        Ok(Position { iteration: step.iteration, updates: step.updates, parameters })
    }
}
