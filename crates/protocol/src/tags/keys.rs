//! The pseudo-random numbers that a job's secret gives: coefficients and pads, all by AES.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth};

use super::field::Field;
use super::meaning::{Meaning, Subject, SubjectDigests};
use super::products::Multipliers;
use crate::numbers::bound::Lanes;

/// Bits of a block that are left out, so that there is room for sums.
/// The others are more than enough to be spread evenly below the prime.
const LEFT_OUT: u32 = 8;

/// The keys of tags in all generations of a job, as long as the tags are numbers of the same field.
#[derive(Debug)]
pub(super) struct Keys {
    pub(super) secret: JobSecret,
    pub(super) width: SliceWidth,
    pub(super) field: Field,
    pub(super) coefficients: Coefficients,
    pub(super) subjects: Subjects,
}

impl Keys {
    pub(super) fn new(secret: &JobSecret, width: SliceWidth, field: Field) -> Self {
        let coefficients = Coefficients::new(secret, width, field);
        Self { secret: secret.clone(), width, field, coefficients, subjects: Subjects::new(secret) }
    }
}

/// The coefficients of a slice's values, and of the other numbers that a tag covers.
pub(super) struct Coefficients {
    pub(super) values: Multipliers,
    pub(super) weight: u64,
    /// For each lane of the bounds of a slice's blocks: what its owner adds to its tag.
    pub(super) owners: Box<[u64]>,
    /// The same for a [digest](super::Membership::digest): for each of these lanes,
    /// and for two more numbers.
    pub(super) digest_of_lanes: Multipliers,
    pub(super) digest: [u64; 2],
}

impl Coefficients {
    fn new(secret: &JobSecret, width: SliceWidth, field: Field) -> Self {
        let cipher = cipher(secret, "coefficients of tags");
        let number = |index: u64| {
            field.reduce((encrypt(&cipher, u128::from(index).to_be_bytes()) >> LEFT_OUT).cast_signed())
        };
        let after = width.values() as u64;
        let values: Vec<u64> = (0..after).map(number).collect();
        let lanes = (width.blocks_of_values() * Lanes::COUNT) as u64;
        let owners = after + 1..after + 1 + lanes;
        let digest = owners.end..owners.end + lanes;
        let after_digest = digest.end;
        Self {
            values: Multipliers::new(field, &values),
            weight: number(after),
            owners: owners.map(number).collect(),
            digest_of_lanes: Multipliers::new(field, &digest.map(number).collect::<Vec<_>>()),
            digest: [number(after_digest), number(after_digest + 1)],
        }
    }
}

/// Does not show the numbers, which are as good as the secret.
impl fmt::Debug for Coefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coefficients(…)")
    }
}

/// Makes the part that an operation's pads have in common: a CBC-MAC of the two blocks that identify
/// the operation. It is a pseudo-random function as long as all messages have the same length.
#[derive(Debug)]
pub(super) struct Subjects(Aes128);

impl Subjects {
    fn new(secret: &JobSecret) -> Self {
        Self(cipher(secret, "subjects of tags"))
    }

    pub(super) fn digests(&self, subject: Subject) -> SubjectDigests {
        let digest = |operator| {
            let [first, second] = subject.to_blocks(operator);
            let digest = encrypt(&self.0, first.to_be_bytes()) ^ second;
            encrypt(&self.0, digest.to_be_bytes())
        };
        SubjectDigests { sum: digest(Operator::Sum), max: digest(Operator::Max) }
    }
}

/// The pads that hide the rest of a tag: fresh for each member, slice and generation.
///
/// Each member has a random number for each slice: an encrypted block that identifies the slice and the member. The
/// members stand in a row. A member's pad is its number less the number of the member behind it; the last member's pad
/// is its number. So pads are as random as the numbers are: each number follows from the pads from there to the end of
/// the row. And all members' pads add up to the first member's number. A receiver has to make only this number, for any
/// number of members.
#[derive(Debug, Clone)]
pub(super) struct Pads(Aes128);

impl Pads {
    /// With a key for this row alone: sums of other members have other pads, whatever they are said to be.
    pub(super) fn new(secret: &JobSecret, row: &[Rank]) -> Self {
        let row = row.iter().flat_map(|rank| rank.get().to_be_bytes());
        let purpose: Vec<u8> = b"pads of tags".iter().copied().chain(row).collect();
        Self(cipher(secret, purpose))
    }

    /// The pad of a member, and what [`of_all`](Self::of_all) returns; `behind` is the member
    /// behind it, if there is one.
    pub(super) fn of_member(
        &self,
        job: JobId,
        meaning: &Meaning,
        (own, behind): (Rank, Option<Rank>),
        first: Rank,
    ) -> (i128, i128) {
        let [own, after, first] = self.numbers(job, meaning, [own, behind.unwrap_or(own), first]);
        (if behind.is_some() { own - after } else { own }, first)
    }

    /// The sum of the pads of all members from `first` to the end of the row.
    pub(super) fn of_all(&self, job: JobId, meaning: &Meaning, first: Rank) -> i128 {
        let [number] = self.numbers(job, meaning, [first]);
        number
    }

    /// The numbers of `N` members. Computing them together takes little longer than computing one.
    fn numbers<const N: usize>(&self, job: JobId, meaning: &Meaning, ranks: [Rank; N]) -> [i128; N] {
        let Meaning { subject, operator, seq, scale } = *meaning;
        let subject = match operator {
            Operator::Sum => subject.sum,
            Operator::Max => subject.max,
        };
        let slice =
            subject ^ (u128::from(scale) << 64 | u128::from(seq.0) << 32 | u128::from(job.get()) << 16);
        let mut blocks = ranks.map(|rank| Array::from((slice ^ u128::from(rank.get())).to_be_bytes()));
        self.0.encrypt_blocks(&mut blocks);
        blocks.map(|block| (u128::from_be_bytes(block.into()) >> LEFT_OUT).cast_signed())
    }
}

/// The cipher for one purpose: from its key nothing follows about the key for another.
pub(crate) fn cipher(secret: &JobSecret, purpose: impl AsRef<[u8]>) -> Aes128 {
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
