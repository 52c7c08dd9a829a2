//! Packing of levels into the 32-bit integers of an all-reduce.

use rayon::prelude::*;
use thiserror::Error;

use super::codebook::Codebook;
use crate::error::EncodeError;
use crate::finite;
use crate::pieces::{BLOCK, PIECE};

/// The number of usable bits of a lane: all bits except the sign.
const USED_BITS: u32 = 31;

/// The packing of levels into the integers that a fabric sums.
///
/// Each lane has several fields. A field is wide enough for the sum of all workers' levels, and a lane has as many
/// fields as fit. So the addition of two lanes adds all fields at once, and no field overflows into the next. Field f
/// of lane l belongs to value f · lanes + l.
#[derive(Debug, Clone)]
pub struct Lanes {
    codebook: Codebook,
    workers: u32,
    values: usize,
    /// The number of bits of a field.
    width: u32,
    fields: usize,
}

/// The reason why a gradient cannot have lanes, or why the sum of lanes is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LanesError {
    /// The sum of the levels of this number of workers needs more bits than a lane has.
    #[error("the levels of {0} workers don't add up in 31 bits: use fewer workers, or casq-4 and a server")]
    TooManyWorkers(u32),
    /// The number of lanes does not match the values.
    #[error("{got} lanes instead of {expected}: pack and add up with the same codebook, workers and values")]
    Length {
        /// The number of lanes that the values take.
        expected: usize,
        /// The number of lanes passed in.
        got: usize,
    },
    /// A field is larger than any sum of levels.
    #[error("lane {lane} is {value}, which is no sum of levels: not all workers used the same codebook")]
    Sum {
        /// The lane's index.
        lane: usize,
        /// The value of the lane.
        value: i32,
    },
}

impl Lanes {
    /// Makes the packing for `values` values of each of `workers` workers, which have all agreed on
    /// `codebook`.
    ///
    /// # Errors
    /// [`LanesError::TooManyWorkers`] if the sum of the workers' levels does not fit into a lane.
    pub fn new(codebook: &Codebook, workers: u32, values: usize) -> Result<Self, LanesError> {
        let width = (u64::BITS - codebook.most(workers).leading_zeros()).max(1);
        if width > USED_BITS {
            return Err(LanesError::TooManyWorkers(workers));
        }
        Ok(Self { codebook: codebook.clone(), workers, values, width, fields: (USED_BITS / width) as usize })
    }

    /// Returns the number of integers that a gradient takes.
    pub fn count(&self) -> usize {
        self.values.div_ceil(self.fields)
    }

    /// Packs a worker's gradient into the integers that it contributes.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] if a value is NaN or infinite; [`EncodeError::Values`] for a gradient of another
    /// length.
    pub fn pack(&self, gradient: &[f32]) -> Result<Vec<i32>, EncodeError> {
        if gradient.len() != self.values {
            return Err(EncodeError::Values { expected: self.values, got: gradient.len() });
        }
        finite::check(gradient)?;
        let nearest = self.codebook.nearest();
        let mut levels = [0; 256];
        levels.iter_mut().zip(self.codebook.levels()).for_each(|(entry, level)| *entry = i32::from(*level));
        let count = self.count();
        let mut lanes = vec![0_i32; count];
        lanes.par_chunks_mut(PIECE).enumerate().for_each(|(piece, lanes)| {
            let mut indexes = [0; BLOCK];
            for (block, lanes) in lanes.chunks_mut(BLOCK).enumerate() {
                let start = piece * PIECE + block * BLOCK;
                for field in 0..self.fields {
                    let values = gradient.get(field * count + start..).unwrap_or_default();
                    let values = &values[..values.len().min(lanes.len())];
                    nearest.find(values, &mut indexes[..values.len()]);
                    let shift = field as u32 * self.width;
                    for (lane, index) in lanes.iter_mut().zip(&indexes[..values.len()]) {
                        *lane |= levels[usize::from(*index)] << shift;
                    }
                }
            }
        });
        Ok(lanes)
    }

    /// Returns the sum of all workers' decoded gradients, from the sum of their lanes.
    ///
    /// # Errors
    /// The errors of [`sum_of`](Self::sum_of).
    pub fn sum(&self, lanes: &[i32]) -> Result<Vec<f32>, LanesError> {
        self.sum_of(lanes, self.workers)
    }

    /// Returns the sum of the decoded gradients of `workers` workers, from the sum of their lanes.
    /// For one worker this is its decoded gradient.
    ///
    /// It has the same bits as the sum of the decoded codes, if these are exact (see [`Codebook`]).
    ///
    /// # Errors
    /// [`LanesError::Length`] for another number of lanes; [`LanesError::Sum`] if a lane is not a sum of the levels of
    /// `workers` workers.
    pub fn sum_of(&self, lanes: &[i32], workers: u32) -> Result<Vec<f32>, LanesError> {
        if lanes.len() != self.count() {
            return Err(LanesError::Length { expected: self.count(), got: lanes.len() });
        }
        let most = self.codebook.most(workers.min(self.workers)).cast_signed();
        let mask = (1_i64 << self.width) - 1;
        let mut out = vec![0.0; self.values];
        if lanes.is_empty() {
            return Ok(out);
        }
        out.chunks_mut(lanes.len()).zip(0..).try_for_each(|(out, field)| {
            let pieces = out.par_chunks_mut(PIECE).zip(lanes.par_chunks(PIECE)).enumerate();
            pieces.try_for_each(|(piece, (out, lanes))| {
                let mut largest = 0;
                for (out, lane) in out.iter_mut().zip(lanes) {
                    let sum = (i64::from(*lane) >> (field * self.width)) & mask;
                    largest = largest.max(sum | i64::from(*lane < 0) << USED_BITS);
                    *out = self.codebook.sum(sum, workers);
                }
                if largest <= most { Ok(()) } else { Err(self.no_sum(lanes, piece * PIECE, most)) }
            })
        })?;
        Ok(out)
    }

    /// Returns the error for the first lane of `lanes` that is not a sum of levels.
    /// The first of `lanes` has the index `start`.
    fn no_sum(&self, lanes: &[i32], start: usize, most: i64) -> LanesError {
        let is_sum = |lane: &i32| {
            let fields = (0..self.fields as u32).map(|field| i64::from(*lane) >> (field * self.width));
            *lane >= 0 && fields.map(|field| field & ((1 << self.width) - 1)).all(|sum| sum <= most)
        };
        let at = lanes.iter().position(|lane| !is_sum(lane)).unwrap_or_default();
        LanesError::Sum { lane: start + at, value: lanes[at] }
    }
}
