//! Measures the bytes, errors and times of a codec on gradients of a training with f32.

use std::time::{Duration, Instant};

use anyhow::Result;
use tributary_codec::{Lanes, Shared, Sketch, decode, decode_into};
use tributary_trainer::{Digits, PARAMETERS, Training};

use super::candidates::Candidate;
use super::training::{codecs, codes, gradients, learners, step, sum};

/// Number of rounds whose gradients are kept. They are spread over the training, because gradients are
/// larger at its start.
const KEPT: u32 = 4;
/// The number of timed encodings and decodings; the report shows the median.
const TIMED: usize = 41;

/// Every worker's gradients in some rounds of the training without a codec.
pub(super) struct Gradients {
    rounds: Vec<Vec<Vec<f32>>>,
}

/// The effect of a codec on these gradients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    /// Bytes that a worker sends in each round: the largest code, and the sketch if the codec needs
    /// agreement.
    pub(super) bytes: usize,
    /// Bytes that a worker sends in each round over a fabric that aggregates codes; `None` if the codec
    /// does not allow this.
    pub(super) fabric_bytes: Option<usize>,
    /// The squared error of a worker's gradient, divided by the gradient's square.
    pub(super) error: f64,
    /// The squared error of the sum of all workers' gradients, divided by the square of the sum.
    pub(super) error_of_sum: f64,
    pub(super) encode: Duration,
    pub(super) decode: Duration,
}

impl Gradients {
    /// Runs a training, and keeps the gradients of some rounds.
    pub(super) fn of(training: &Training, digits: &Digits) -> Result<Self> {
        let mut learners = learners(training, digits)?;
        let mut rounds = Vec::new();
        for round in 0..training.rounds() {
            let gradients = gradients(&learners)?;
            let mut sum = vec![0.0; PARAMETERS];
            gradients.iter().for_each(|gradient| add(&mut sum, gradient));
            step(&mut learners, &sum, training)?;
            if round % training.rounds().div_ceil(KEPT) == 0 {
                rounds.push(gradients);
            }
        }
        Ok(Self { rounds })
    }

    /// Returns the number of values in each gradient.
    pub(super) fn values(&self) -> usize {
        PARAMETERS
    }
}

/// Measures a candidate.
///
/// # Errors
/// The codec's errors, which do not occur with finite gradients.
pub(super) fn measure(candidate: &Candidate, gradients: &Gradients) -> Result<Measured> {
    let (mut own, mut of_sum) = (Error::default(), Error::default());
    let mut bytes = 0;
    for (seed, round) in (0..).zip(&gradients.rounds) {
        let workers = u16::try_from(round.len())?;
        let codes = codes(&mut codecs(candidate, workers, seed), round)?;
        let mut exact = vec![0.0; PARAMETERS];
        for (code, gradient) in codes.iter().zip(round) {
            own.add(gradient, &decode(code, PARAMETERS)?);
            add(&mut exact, gradient);
            bytes = bytes.max(code.len());
        }
        of_sum.add(&exact, &sum(&codes)?);
    }
    let first: &[Vec<f32>] = gradients.rounds.first().map_or(&[], Vec::as_slice);
    let fabric_bytes = fabric_bytes(candidate, first)?;
    let (encode, decode) = times(candidate, first)?;
    Ok(Measured {
        bytes: bytes + fabric_bytes.map_or(0, |_| SKETCH_BYTES),
        fabric_bytes,
        error: own.relative(),
        error_of_sum: of_sum.relative(),
        encode,
        decode,
    })
}

const SKETCH_BYTES: usize = Sketch::LANES * size_of::<i32>();

/// Returns the bytes of a round over a fabric: the sketch, and four bytes for each lane.
fn fabric_bytes(candidate: &Candidate, round: &[Vec<f32>]) -> Result<Option<usize>> {
    let mut codecs = codecs(candidate, 1, 0);
    let Some((codec, gradient)) = codecs.first_mut().zip(round.first()) else { return Ok(None) };
    let Some(sketch) = codec.propose(gradient)? else { return Ok(None) };
    let mut shared = Shared::new(0);
    tributary_codec::Codec::agree(&mut shared, &sketch)?;
    let Some(codebook) = shared.codebook() else { return Ok(None) };
    let lanes = Lanes::new(codebook, u32::try_from(round.len())?, gradient.len())?;
    Ok(Some(SKETCH_BYTES + lanes.count() * size_of::<i32>()))
}

/// Returns the median times of encoding the first worker's gradient, including agreement, and of
/// decoding it.
fn times(candidate: &Candidate, round: &[Vec<f32>]) -> Result<(Duration, Duration)> {
    let Some(gradient) = round.get(..1) else { return Ok(Default::default()) };
    let mut codecs = codecs(candidate, 1, 0);
    let mut out = vec![0.0; PARAMETERS];
    let (mut encoding, mut decoding) = (Vec::new(), Vec::new());
    for _ in 0..TIMED {
        let start = Instant::now();
        let codes = codes(&mut codecs, gradient)?;
        encoding.push(start.elapsed());
        let start = Instant::now();
        codes.iter().try_for_each(|code| decode_into(code, &mut out))?;
        decoding.push(start.elapsed());
    }
    Ok((median(encoding), median(decoding)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn add(sum: &mut [f32], values: &[f32]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// A squared error, and the square to which it is compared.
#[derive(Debug, Default)]
struct Error {
    off: f64,
    square: f64,
}

impl Error {
    fn add(&mut self, exact: &[f32], decoded: &[f32]) {
        for (exact, decoded) in exact.iter().zip(decoded) {
            let (exact, decoded) = (f64::from(*exact), f64::from(*decoded));
            self.off += (exact - decoded) * (exact - decoded);
            self.square += exact * exact;
        }
    }

    /// Returns the error divided by the square; 0 if the square is 0.
    fn relative(&self) -> f64 {
        if self.square > 0.0 { self.off / self.square } else { 0.0 }
    }
}
