//! A gradient whose parts come one by one.

use tonic::Status;
use tributary_api::ps::PushPart;

use crate::parts::{PartError, Parts};

/// A worker's next gradient, as far as its parts have come. It is used only once it is whole.
pub(super) struct Assembly {
    length: usize,
    parts: Parts,
    /// As long as the gradient from its first part on, with zeros for values that have not
    /// come; empty before that.
    values: Vec<f32>,
}

impl Assembly {
    /// Creates an empty set of parts of a gradient of `length` values; takes no memory yet.
    pub(super) fn new(length: usize) -> Self {
        Self { length, parts: Parts::new(length), values: Vec::new() }
    }

    /// Decodes a part into its place while the next one is on its way.
    /// This runs off the threads that all sessions share: a large part takes a while.
    ///
    /// # Errors
    /// The error is for the worker alone, whose session then ends.
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

    /// Takes the gradient that the parts make up.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn take(&mut self) -> Result<Vec<f32>, Status> {
        self.parts.check_whole().map_err(|error| refusal(&error))?;
        self.parts.clear();
        Ok(std::mem::take(&mut self.values))
    }

    /// Drops the parts: there will be no gradient of them.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.length);
    }

    /// Checks that a gradient may come that does not consist of the parts.
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
