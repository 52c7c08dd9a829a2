//! Sends parameters to a worker: the first time as values, later as a codec's code of their change.
//!
//! Server and worker both keep the parameters that the worker knows. A change is the difference between
//! the present parameters and the known ones. It therefore includes what earlier codes left out, and no
//! codec needs error feedback here. Both sides decode the same codes, so their known parameters are
//! equal bit for bit.

use tributary_codec::{Codec, DecodeError, EncodeError, Kind, decode};

/// The server's side of one session.
pub(crate) struct Sent {
    codec: Box<dyn Codec>,
    /// The parameters that the worker knows; empty before the server has sent any.
    known: Vec<f32>,
}

/// The form in which parameters are sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Change {
    /// All parameters, unencoded.
    Whole(Vec<f32>),
    /// The code of the change since the last message.
    Code(Vec<u8>),
}

impl Sent {
    /// Creates the state before anything is sent. The codec's random choices follow from `seed`.
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        Self { codec: kind.without_feedback().codec(seed), known: Vec::new() }
    }

    /// Returns the next message; the worker that decodes it knows `parameters`, up to the codec's error.
    /// The parameters are sent unencoded if the worker knows none yet, or if the change cannot be encoded
    /// because some values are not finite.
    pub(crate) fn next(&mut self, parameters: Vec<f32>) -> Change {
        let code = if self.known.len() == parameters.len() { self.code(&parameters).ok() } else { None };
        match code {
            Some(code) => Change::Code(code),
            None => {
                self.known.clone_from(&parameters);
                Change::Whole(parameters)
            }
        }
    }

    fn code(&mut self, parameters: &[f32]) -> Result<Vec<u8>, EncodeError> {
        let changed: Vec<f32> = parameters.iter().zip(&self.known).map(|(now, known)| now - known).collect();
        let code = self.codec.encode(&changed)?;
        add(&mut self.known, &code).map_err(EncodeError::Unreadable)?;
        Ok(code)
    }
}

/// The worker's side: the parameters that it knows.
#[derive(Debug, Default)]
pub(crate) struct Known(Vec<f32>);

impl Known {
    /// Stores parameters that came unencoded.
    pub(crate) fn set(&mut self, parameters: Vec<f32>) -> &[f32] {
        self.0 = parameters;
        &self.0
    }

    /// Applies the code of a change.
    ///
    /// # Errors
    /// The code is damaged, or its number of values differs from the number of known parameters. The known
    /// parameters are then unchanged.
    pub(crate) fn change(&mut self, code: &[u8]) -> Result<&[f32], DecodeError> {
        add(&mut self.0, code)?;
        Ok(&self.0)
    }
}

fn add(known: &mut [f32], code: &[u8]) -> Result<(), DecodeError> {
    let changed = decode(code, known.len())?;
    known.iter_mut().zip(changed).for_each(|(known, changed)| *known += changed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameters(step: usize) -> Vec<f32> {
        (0..200_u16).map(|place| (f32::from(place) * 0.3 + step as f32 * 0.1).sin()).collect()
    }

    fn taken(known: &mut Known, change: Change) -> Vec<f32> {
        match change {
            Change::Whole(parameters) => known.set(parameters).to_vec(),
            Change::Code(code) => known.change(&code).unwrap().to_vec(),
        }
    }

    proptest! {
        /// A later change includes what the codec lost before. So the worker's parameters approach the
        /// server's once the server's parameters no longer change.
        #[test]
        fn both_ends_know_the_same_and_come_close(
            name in prop::sample::select(vec!["f16", "uniform-8", "casq-4", "casq-8-ef", "top-10", "one-bit"]),
            steps in 1usize..6,
        ) {
            let kind: Kind = name.parse().unwrap();
            let (mut sent, mut known) = (Sent::new(kind, 1), Known::default());
            let first = sent.next(parameters(0));
            prop_assert_eq!(&first, &Change::Whole(parameters(0)));
            taken(&mut known, first);
            for step in 1..steps {
                let got = taken(&mut known, sent.next(parameters(step)));
                prop_assert_eq!(&got, &sent.known);
            }
            let last = parameters(steps);
            let mut got = Vec::new();
            for _ in 0..120 {
                got = taken(&mut known, sent.next(last.clone()));
            }
            let off = got.iter().zip(&last).map(|(got, last)| (got - last).abs()).fold(0.0, f32::max);
            prop_assert!(off < 0.02, "off by {}", off);
        }
    }

    #[test]
    fn parameters_that_cannot_be_encoded_go_whole() {
        let mut sent = Sent::new("casq-4".parse().unwrap(), 1);
        sent.next(parameters(0));
        let mut diverged = parameters(1);
        diverged[3] = f32::INFINITY;
        assert_eq!(sent.next(diverged.clone()), Change::Whole(diverged));
    }

    #[test]
    fn a_damaged_change_changes_nothing() {
        let mut sent = Sent::new("f16".parse().unwrap(), 1);
        let mut known = Known::default();
        taken(&mut known, sent.next(parameters(0)));
        let Change::Code(mut code) = sent.next(parameters(1)) else { panic!("no code") };
        code.pop();
        assert!(known.change(&code).is_err());
        assert_eq!(known.0, parameters(0));
    }
}
