//! A gradient that arrives in parts.

use tonic::Status;
use tributary_api::ps::PushPart;

use crate::parts::{PartError, Parts};

/// The parts of a worker's next gradient that have arrived. The job uses the gradient only once it is
/// whole.
pub(super) struct Assembly {
    length: usize,
    parts: Parts,
    /// The values, with zeros where no part has arrived; empty before the first part.
    values: Vec<f32>,
}

impl Assembly {
    /// Creates an empty set of parts of a gradient of `length` values. Allocates no memory for the values
    /// yet.
    pub(super) fn new(length: usize) -> Self {
        Self { length, parts: Parts::new(length), values: Vec::new() }
    }

    /// Decodes a part into its place. The decoding runs on a blocking thread, because a large part would
    /// delay the threads that all sessions share.
    ///
    /// # Errors
    /// The part is invalid. The error ends this worker's session only.
    pub(super) async fn add(&mut self, PushPart { first, length, code }: PushPart) -> Result<(), Status> {
        let range = self.parts.add(first, length).map_err(|error| refusal(&error))?;
        let (mut values, all) = (std::mem::take(&mut self.values), self.length);
        let decoded = tokio::task::spawn_blocking(move || {
            if values.is_empty() {
                values = vec![0.0; all];
            }
            tributary_codec::decode_into(&code, &mut values[range]).map(|()| values)
        });
        match decoded.await {
            Ok(Ok(values)) => self.values = values,
            Ok(Err(error)) => {
                let problem = format!("part of a gradient from value {first} on: {error}");
                return Err(Status::invalid_argument(problem));
            }
            Err(_) => return Err(Status::internal("the server is stopping")),
        }
        Ok(())
    }

    /// Returns the gradient that consists of the parts.
    ///
    /// # Errors
    /// Some parts are missing. The error ends this worker's session only.
    pub(super) fn take(&mut self) -> Result<Vec<f32>, Status> {
        self.parts.check_whole().map_err(|error| refusal(&error))?;
        self.parts.clear();
        Ok(std::mem::take(&mut self.values))
    }

    /// Drops the parts of an unfinished gradient.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.length);
    }

    /// Checks that no parts have arrived, before a whole gradient is accepted.
    ///
    /// # Errors
    /// Some parts have arrived. The error ends this worker's session only.
    pub(super) fn check_empty(&self) -> Result<(), Status> {
        if self.parts.is_empty() { Ok(()) } else { Err(refusal(&PartError::Open)) }
    }
}

fn refusal(error: &PartError) -> Status {
    Status::invalid_argument(error.to_string())
}
