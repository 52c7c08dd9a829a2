//! `casq-4-shared`: one codebook for all workers, on a grid of integers, so that
//! switches can sum codes.
//!
//! In codes of [`casq`](crate::casq), an index has different values on different workers. So only a server that decodes
//! the codes can sum them. Here the workers first sum a [`Sketch`] of their gradients, in an ordinary all-reduce of
//! integers, and each derives the same [`Codebook`] from the sum. Its four levels are multiples of one step. A fabric
//! or a server sums the multiples. [`Lanes`] packs several of them into each integer of an all-reduce.
//!
//! The codebook is derived from this round's gradients and not from the last round's sum. A sum of gradients has
//! another distribution, because much of them cancels out, and a sketch costs only 8 KiB. This codec has no hash
//! buckets, because their means are useless to other workers.

mod codebook;
mod lanes;
mod sketch;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use codebook::Codebook;
pub use lanes::{Lanes, LanesError};
pub use sketch::Sketch;

use crate::bits::{packed_len, width};
use crate::casq::check_clusters;
use crate::codec::Codec;
use crate::error::{DecodeError, EncodeError};
use crate::finite;
use crate::kind::Kind;
use crate::levels::look_up;
use crate::wire::{Header, Reader};
use crate::write::Write;
use codebook::CLUSTERS;

pub(crate) const ID: u8 = 5;

/// The encoder of one worker.
/// Each round has these steps: [`propose`](Codec::propose), sum the sketches, [`agree`](Codec::agree), then
/// [`encode`](Codec::encode) or [`Lanes::pack`].
#[derive(Debug, Clone)]
pub struct Shared {
    codebook: Option<Codebook>,
    random: ChaCha8Rng,
}

impl Shared {
    /// Makes an encoder. Its samples are derived from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { codebook: None, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns the codebook of the last agreement; `None` before the first.
    pub fn codebook(&self) -> Option<&Codebook> {
        self.codebook.as_ref()
    }
}

impl Codec for Shared {
    fn kind(&self) -> Kind {
        Kind::Shared
    }

    fn propose(&mut self, gradient: &[f32]) -> Result<Option<Sketch>, EncodeError> {
        Sketch::of(gradient, &mut self.random).map(Some)
    }

    fn agree(&mut self, sum: &Sketch) -> Result<(), EncodeError> {
        self.codebook = Some(Codebook::from_sketch(sum)?);
        Ok(())
    }

    fn encode(&mut self, gradient: &[f32]) -> Result<Vec<u8>, EncodeError> {
        finite::check(gradient)?;
        if gradient.is_empty() {
            return Header::start(ID, 0, gradient, 0);
        }
        let codebook = self.codebook.as_ref().ok_or(EncodeError::NoCodebook)?;
        let levels = codebook.levels();
        let width = width(levels.len());
        let body = 8 + levels.len() + packed_len(gradient.len(), width);
        let mut code = Header::start(ID, levels.len() as u16, gradient, body)?;
        code.extend(codebook.step().to_le_bytes());
        code.extend(codebook.zero().to_le_bytes());
        code.extend(levels);
        codebook.nearest().pack(gradient, width, &mut code);
        Ok(code)
    }
}

pub(crate) fn open(clusters: u16, mut body: Reader<'_>, values: usize) -> Result<Write<'_>, DecodeError> {
    let clusters = check_clusters(clusters, CLUSTERS, values)?;
    if clusters == 0 {
        body.take_rest(0)?;
        return Ok(Box::new(|_| Ok(())));
    }
    let (step, zero) = (body.f32("the step")?, body.i32()?);
    let levels = Codebook::from_parts(step, zero, body.take(clusters)?)?.values();
    let width = width(clusters);
    let packed = body.take_rest(packed_len(values, width))?;
    Ok(Box::new(move |out| look_up(packed, width, &levels, out)))
}
