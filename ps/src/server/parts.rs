//! A gradient whose parts come one by one.

use tonic::Status;
use tributary_api::ps::PushPart;

use crate::parts::{PartError, Parts};

/// What a worker has sent of its next gradient. Nobody else knows of it before its end.
pub(super) struct Assembly {
    length: usize,
    parts: Parts,
    /// As many as the gradient has from its first part on; those that have not come are zeros.
    values: Vec<f32>,
}

impl Assembly {
    /// Nothing of a gradient of so many values, which takes no memory yet.
    pub(super) fn new(length: usize) -> Self {
        Self { length, parts: Parts::new(length), values: Vec::new() }
    }

    /// Decodes a part to where it belongs, while the next one is on its way. Not on the threads that all sessions share:
    /// a large part takes a while.
    ///
    /// # Errors
    /// To its worker alone, whose session is over then.
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

    /// Takes the gradient that the parts are.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn take(&mut self) -> Result<Vec<f32>, Status> {
        self.parts.check_whole().map_err(|error| refusal(&error))?;
        self.parts.clear();
        Ok(std::mem::take(&mut self.values))
    }

    /// Lets go of the parts: there will be no gradient of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.length);
    }

    /// Whether a gradient may come that is not of parts.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn check_empty(&self) -> Result<(), Status> {
        if self.parts.is_empty() { Ok(()) } else { Err(refusal(&PartError::Open)) }
    }
}

fn refusal(error: &PartError) -> Status {
    Status::invalid_argument(error.to_string())
}
