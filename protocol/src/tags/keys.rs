//! The pseudo-random numbers that a job's secret gives: coefficients and pads, all by AES.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth};

use super::field::Field;
use super::meaning::{Meaning, Subject, SubjectDigests};
use super::products::{Multipliers, SIGN};

/// Blocks that are encrypted at once: as many as a processor has under way.
const AT_ONCE: usize = 8;
/// Of a block's bits those are left out for which a sum of [`AT_ONCE`] blocks has no room. More than enough are left to be
/// spread evenly below the prime.
const LEFT_OUT: u32 = 8;

/// What tags are made from, as long as they are numbers of the same field.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) secret: JobSecret,
    pub(super) width: SliceWidth,
    pub(super) field: Field,
    pub(super) coefficients: Coefficients,
    pub(super) pads: Pads,
}

impl Keys {
    pub(super) fn new(secret: &JobSecret, width: SliceWidth, field: Field) -> Self {
        let (coefficients, pads) = (Coefficients::new(secret, width, field), Pads::new(secret));
        Self { secret: secret.clone(), width, field, coefficients, pads }
    }
}

/// What each value of a slice is multiplied by, and what else a tag covers.
pub(super) struct Coefficients {
    pub(super) values: Multipliers,
    /// What the values' coefficients add too much for values that are larger by [`SIGN`].
    pub(super) offset: u64,
    pub(super) weight: u64,
    pub(super) owners: u64,
    /// 1 / owners.
    pub(super) per_owner: u64,
}

impl Coefficients {
    fn new(secret: &JobSecret, width: SliceWidth, field: Field) -> Self {
        let cipher = cipher(secret, "coefficients of tags");
        let number = |index: u64| field.reduce(encrypt(&cipher, u128::from(index).to_be_bytes()));
        let after = width.values() as u64;
        let values: Vec<u64> = (0..after).map(number).collect();
        let sum: u128 = values.iter().copied().map(u128::from).sum();
        let offset = field.multiply(field.reduce(sum), SIGN.into());
        // It is divided by, so that it must not be 0.
        let owners = number(after + 1).max(1);
        Self {
            values: Multipliers::new(&values),
            offset,
            weight: number(after),
            owners,
            per_owner: field.invert(owners),
        }
    }
}

/// Not the numbers: they are as good as the secret.
impl fmt::Debug for Coefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coefficients(…)")
    }
}

/// What hides the rest of a tag: fresh for each member, slice and generation.
///
/// A pad is a CBC-MAC of three blocks: two say what the operation is and one what the slice is, and whose. It is a
/// pseudo-random function as long as all messages have the same length.
#[derive(Debug)]
pub(super) struct Pads(Aes128);

impl Pads {
    fn new(secret: &JobSecret) -> Self {
        Self(cipher(secret, "pads of tags"))
    }

    /// The MAC of the first two blocks.
    pub(super) fn digests(&self, subject: Subject) -> SubjectDigests {
        let digest = |operator| {
            let [first, second] = subject.to_blocks(operator);
            let digest = encrypt(&self.0, first.to_be_bytes()) ^ second;
            encrypt(&self.0, digest.to_be_bytes())
        };
        SubjectDigests { sum: digest(Operator::Sum), max: digest(Operator::Max) }
    }

    /// What these ranks' pads add up to.
    pub(super) fn sum(&self, field: Field, job: JobId, meaning: &Meaning, ranks: &[Rank]) -> u64 {
        let Meaning { subject, operator, seq, scale: (bound, weight) } = *meaning;
        let subject = match operator {
            Operator::Sum => subject.sum,
            Operator::Max => subject.max,
        };
        let scale = u128::from(bound) << 96 | u128::from(weight) << 64;
        let common = subject ^ (scale | u128::from(seq.0) << 32 | u128::from(job.get()) << 16);
        let mut sum = 0;
        for ranks in ranks.chunks(AT_ONCE) {
            let mut blocks = [Array::from([0; 16]); AT_ONCE];
            let used = blocks.get_mut(..ranks.len()).unwrap_or_default();
            for (block, rank) in used.iter_mut().zip(ranks) {
                *block = Array::from((common ^ u128::from(rank.get())).to_be_bytes());
            }
            self.0.encrypt_blocks(used);
            let numbers = used.iter().map(|block| u128::from_be_bytes((*block).into()) >> LEFT_OUT);
            sum = field.add(sum, field.reduce(numbers.sum()));
        }
        sum
    }
}

/// For one purpose: nothing about another purpose's key follows from its own.
pub(crate) fn cipher(secret: &JobSecret, purpose: &str) -> Aes128 {
    let digest = Sha256::new().chain_update(secret.bytes()).chain_update(purpose).finalize();
    let mut key = [0; 16];
    key.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    Aes128::new(&Array::from(key))
}

fn encrypt(cipher: &Aes128, block: [u8; 16]) -> u128 {
    let mut block = Array::from(block);
    cipher.encrypt_block(&mut block);
    u128::from_be_bytes(block.into())
}
