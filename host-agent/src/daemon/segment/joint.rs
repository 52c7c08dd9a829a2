//! Sums of the elements of several processes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::{io, iter, thread};

use bytemuck::cast_vec;
use half::{bf16, f16};
use tributary_protocol::{Bounds, ElementType, GradientData, Part, PartsSum};
use tributary_wire::SliceWidth;

use super::contents::{AT_ONCE, of_length};
use super::{ElementRange, Segment, vector};

/// The fewest elements for which another thread is worth its start.
const PER_THREAD: usize = 32 * AT_ONCE;

/// The elements that one process contributes.
#[derive(Debug, Clone)]
pub(crate) struct SegmentPart {
    pub(crate) segment: Arc<Segment>,
    pub(crate) place: ElementRange,
    pub(crate) factor: u32,
}

/// The sum of several parts as the protocol takes it.
pub(crate) struct SummedParts {
    pub(crate) first: Part,
    pub(crate) further: Vec<Part>,
    pub(crate) bounds: Option<Bounds>,
}

/// Returns true if [`sum`] may add elements of this type.
pub(crate) fn can_sum(element_type: ElementType) -> bool {
    match element_type {
        ElementType::F32
        | ElementType::F16
        | ElementType::BF16
        | ElementType::F16Paired
        | ElementType::BF16Paired => true,
        // Sums of these have more bits than two f32, or none of the bits of a float.
        ElementType::F32Exact | ElementType::F64 | ElementType::I32 | ElementType::I64 => false,
    }
}

/// Adds the parts on up to `threads` threads, with the total `weight`, in slices of width `width`. Uses
/// `vector` if it has the right length. Returns `None` if two vectors cannot hold the sums (see [`PartsSum::bounds`]).
///
/// # Errors
/// Returns an error if a process has shortened its segment, or if memory or a thread is lacking.
pub(crate) fn sum(
    parts: &[SegmentPart],
    weight: u32,
    vector: Vec<u32>,
    (width, threads): (SliceWidth, usize),
) -> io::Result<Option<SummedParts>> {
    let Some(ElementRange { count, element_type, .. }) = parts.first().map(|part| part.place) else {
        return Ok(None);
    };
    let mut nearest = of_length(cast_vec(vector), count)?;
    let mut rest: Vec<f32> = vector::zeros(count)?;
    let each = count.div_ceil(threads.clamp(1, count.div_ceil(PER_THREAD).max(1)));
    let each = each.next_multiple_of(AT_ONCE).max(AT_ONCE);
    let pieces = nearest.chunks_mut(each).zip(rest.chunks_mut(each)).enumerate();
    let bounds =
        on_threads(pieces, |(number, vectors)| sum_piece(parts, number * each, vectors, weight, width))?;
    for SegmentPart { segment, place, .. } in parts {
        segment.check(*place)?;
    }
    let mut all = Bounds::new(width, element_type, count)?;
    for bounds in bounds {
        let Some(bounds) = bounds else { return Ok(None) };
        all = all.followed_by(bounds);
    }
    let part = |values| Part { data: GradientData::of_floats(element_type, values), factor: 1 };
    Ok(Some(SummedParts { first: part(nearest), further: vec![part(rest)], bounds: Some(all) }))
}

/// Adds the elements from number `begin` on that fill the two vectors.
fn sum_piece(
    parts: &[SegmentPart],
    begin: usize,
    (nearest, rest): (&mut [f32], &mut [f32]),
    weight: u32,
    width: SliceWidth,
) -> io::Result<Option<Bounds>> {
    let factors: Vec<u32> = parts.iter().map(|part| part.factor).collect();
    let element_type = parts.first().map_or(ElementType::F32, |part| part.place.element_type);
    let mut sum = PartsSum::new(width, (element_type, nearest.len()), &factors, weight)?;
    let are_there: Vec<bool> = parts.iter().map(|part| part.segment.is_there(part.place)).collect();
    let (mut elements, mut narrow) = (vec![0.0_f32; AT_ONCE], [0; AT_ONCE]);
    let chunks = nearest.chunks_mut(AT_ONCE).zip(rest.chunks_mut(AT_ONCE));
    for ((nearest, rest), at) in chunks.zip((begin..).step_by(AT_ONCE)) {
        let elements = elements.get_mut(..nearest.len()).unwrap_or_default();
        for ((number, SegmentPart { segment, place, .. }), is_there) in
            parts.iter().enumerate().zip(&are_there)
        {
            let offset = place.offset + at * element_type.bytes();
            let (is_there, narrow) = (*is_there, &mut narrow);
            match element_type {
                ElementType::F16 | ElementType::F16Paired => {
                    segment.copy_widened::<f16>(is_there, offset, narrow, elements)?;
                }
                ElementType::BF16 | ElementType::BF16Paired => {
                    segment.copy_widened::<bf16>(is_there, offset, narrow, elements)?;
                }
                _ => segment.copy(is_there, offset, elements)?,
            }
            sum.add(number, elements);
        }
        sum.store(nearest, rest);
    }
    Ok(sum.bounds())
}

/// Reads each part to a vector of its own, on a thread for each, with the total `weight`. There must be
/// at least one part.
///
/// # Errors
/// The errors of [`sum`].
pub(crate) fn read_each(
    parts: &[SegmentPart],
    weight: u32,
    vector: Vec<u32>,
    width: SliceWidth,
) -> io::Result<SummedParts> {
    let vectors = [vector].into_iter().chain(iter::repeat_with(Vec::new));
    let read = on_threads(parts.iter().zip(vectors), |(SegmentPart { segment, place, factor }, vector)| {
        let (data, bounds) = segment.read_measured(*place, vector, width)?;
        Ok((Part { data, factor: *factor }, (bounds, *factor)))
    })?;
    let (mut parts, bounds): (VecDeque<_>, Vec<_>) = read.into_iter().unzip();
    let no_part = || io::Error::from(io::ErrorKind::InvalidInput);
    let first = parts.pop_front().ok_or_else(no_part)?;
    Ok(SummedParts { first, further: parts.into(), bounds: Bounds::of_parts(bounds, weight) })
}

/// Calls `work` for each item, the last on this thread and each other on one of its own. Returns the
/// results in the order of the items.
fn on_threads<I: Send, T: Send>(
    items: impl Iterator<Item = I>,
    work: impl Fn(I) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let (work, mut items) = (&work, items.collect::<Vec<_>>());
    let last = items.pop();
    thread::scope(|scope| {
        let started = items
            .into_iter()
            .map(|item| thread::Builder::new().spawn_scoped(scope, move || work(item)))
            .collect::<io::Result<Vec<_>>>()?;
        let last = last.map(work);
        let ended = started.into_iter().map(|thread| {
            thread.join().map_err(|_| io::Error::other("a thread that reads elements has panicked"))?
        });
        ended.chain(last).collect()
    })
}
