//! All-reduces of f32 with about a quarter of the bytes, over a fabric that aggregates integers.

use tributary_codec::{Codebook, Codec, EncodeError, Lanes, Residual, Shared, Sketch};

use crate::error::ClientError;
use crate::job::Job;
use crate::operation::Operation;
use crate::segment::Segment;

/// All-reduces of f32 with the codec `casq-4-shared`. Each consists of two all-reduces of i32. In the
/// first, the members agree on four levels. The second sums levels, with several values in each integer.
/// [`Job::quantised`] creates it.
///
/// The savings depend on the number of members. With up to 8 members, a quarter of the bytes are sent; with up to 68
/// members, a third (`docs/quantisation.md`).
#[derive(Debug)]
pub struct Quantised {
    codec: Shared,
    sketch: Segment,
    lanes: Segment,
    feedback: Option<Residual>,
}

/// The size and the codebook of a quantised all-reduce.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// The codebook on which all members have agreed.
    pub codebook: Codebook,
    /// The number of 4-byte elements in the two all-reduces of i32.
    pub elements: usize,
}

impl Job {
    /// Prepares quantised all-reduces of up to `values` values. If `feedback` is true, the quantisation
    /// error of each gradient is added to the next gradient. Use it only for the gradients of one model.
    ///
    /// # Errors
    /// The errors of [`segment`](Self::segment).
    pub async fn quantised(&self, values: usize, feedback: bool) -> Result<Quantised, ClientError> {
        Ok(Quantised {
            codec: Shared::new(self.rank().into()),
            sketch: self.segment(Sketch::LANES * size_of::<i32>()).await?,
            // An integer holds at least one value, so `values` integers are enough.
            lanes: self.segment(values * size_of::<i32>()).await?,
            feedback: feedback.then(Residual::default),
        })
    }
}

impl Quantised {
    /// Replaces a gradient by the sum of all members' gradients, as precisely as four levels can express
    /// it. All members get the same bits. Every member must start the same operations in the same order.
    ///
    /// # Errors
    /// The errors of [`Job::all_reduce`]; [`ClientError::NotQuantised`] on every member if a value of any member is not
    /// finite; [`ClientError::MembersMissing`] if members have left. The gradient is then unchanged.
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

    /// Sums the members' sketches. Returns the codebook and the number of members included. A member
    /// without a sketch contributes a refusal, so that all members fail together.
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

/// Replaces `values` at the beginning of the segment by the sum of all members' values. Returns the
/// number of members included. All members get the same number, although they may receive the news of a departure at
/// different times. If `members` is given, the number must equal it.
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
