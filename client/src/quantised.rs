//! All-reduces of f32 in a quarter of the bytes or so, over a fabric that aggregates integers.

use tributary_codec::{Codebook, Codec, EncodeError, Lanes, Residual, Shared, Sketch};

use crate::error::ClientError;
use crate::job::Job;
use crate::operation::Operation;
use crate::segment::Segment;

/// All-reduces of f32 with `casq-4-shared`: two all-reduces of i32 each, one that makes all members agree on four
/// levels, and one that adds levels up, several values in each integer. [`Job::quantised`] makes it.
///
/// How many bytes that saves follows from the number of members: a quarter of them are sent with up to 8, a third
/// with up to 68 (`docs/quantisation.md`).
#[derive(Debug)]
pub struct Quantised {
    codec: Shared,
    sketch: Segment,
    lanes: Segment,
    feedback: Option<Residual>,
}

/// What a quantised all-reduce was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// What all members have agreed on.
    pub codebook: Codebook,
    /// Elements of the two all-reduces of i32, 4 bytes each.
    pub elements: usize,
}

impl Job {
    /// Quantised all-reduces of up to `values` values. With `feedback`, what the levels leave out of one gradient is
    /// added to the next: for gradients of one model, which then need no other care.
    ///
    /// # Errors
    /// Those of [`segment`](Self::segment).
    pub async fn quantised(&self, values: usize, feedback: bool) -> Result<Quantised, ClientError> {
        Ok(Quantised {
            codec: Shared::new(self.rank().into()),
            sketch: self.segment(Sketch::LANES * size_of::<i32>()).await?,
            // An integer holds one value at least.
            lanes: self.segment(values * size_of::<i32>()).await?,
            feedback: feedback.then(Residual::default),
        })
    }
}

impl Quantised {
    /// Replaces a gradient by the sum of all members' gradients, as far as four levels can say it: the same bits on
    /// every member. Every member must start the same operations in the same order.
    ///
    /// # Errors
    /// Those of [`Job::all_reduce`]; [`ClientError::NotQuantised`] on every member if a value of any of them is not
    /// finite; [`ClientError::MembersMissing`]. The gradient is as it was then.
    pub async fn all_reduce(
        &mut self,
        job: &Job,
        name: &str,
        gradient: &mut [f32],
    ) -> Result<Sent, ClientError> {
        let rank = job.rank();
        let not_quantised = |error| ClientError::NotQuantised { rank, name: name.to_owned(), error };
        let owed = self.feedback.as_ref().map(|residual| residual.added_to(gradient));
        let wanted: &[f32] = owed.as_deref().unwrap_or(gradient);
        let (codebook, members) = self.agree(job, name, wanted).await?;
        let codebook = codebook.map_err(not_quantised)?;

        let lanes = Lanes::new(&codebook, members, wanted.len())?;
        let own = lanes.pack(wanted).map_err(not_quantised)?;
        reduce(job, &mut self.lanes, name, &own, Some(members)).await?;
        let sums = self.lanes.elements::<i32>()?.get(..own.len()).unwrap_or_default();
        let sum = lanes.sum(sums)?;

        if let (Some(residual), Some(wanted)) = (&mut self.feedback, owed) {
            residual.set(wanted, &lanes.sum_of(&own, 1)?);
        }
        gradient.copy_from_slice(&sum);
        Ok(Sent { codebook, elements: Sketch::LANES + own.len() })
    }

    /// Aggregates sketches, of as many members as it says. A member that has none lets all others know, and fails after
    /// that like them.
    async fn agree(
        &mut self,
        job: &Job,
        name: &str,
        gradient: &[f32],
    ) -> Result<(Result<Codebook, EncodeError>, u32), ClientError> {
        let (own, refused) = match self.codec.propose(gradient) {
            Ok(sketch) => (sketch.unwrap_or_else(Sketch::refusal), None),
            Err(error) => (Sketch::refusal(), Some(error)),
        };
        let members = reduce(job, &mut self.sketch, name, own.lanes(), None).await?;
        if let Some(error) = refused {
            return Ok((Err(error), members));
        }
        let sum = Sketch::from_lanes(self.sketch.elements::<i32>()?.to_vec());
        Ok((sum.and_then(|sum| Codebook::from_sketch(&sum)), members))
    }
}

/// The sum of all members' `values`, at the beginning of the segment. Says how many members that were, which all members
/// see alike, while each hears in its own time that one has left; `members`: it has to be as many.
async fn reduce(
    job: &Job,
    segment: &mut Segment,
    name: &str,
    values: &[i32],
    members: Option<u32>,
) -> Result<u32, ClientError> {
    let room = segment.len() / size_of::<i32>();
    let place = segment.elements_mut::<i32>()?.get_mut(..values.len());
    place.ok_or(ClientError::TooLong { values: values.len(), room })?.copy_from_slice(values);
    let operation = Operation { name, elements: Some(0..values.len()), ..Operation::whole::<i32>() };
    let runs = job.all_reduce(segment, operation).await?;
    let contributors = || runs.iter().map(|run| run.contributors);
    let members = members.or(contributors().max()).unwrap_or_default();
    match contributors().find(|contributors| *contributors != members) {
        None => Ok(members),
        Some(contributors) => {
            Err(ClientError::MembersMissing { name: name.to_owned(), contributors, members })
        }
    }
}
