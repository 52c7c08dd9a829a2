//! The pseudo-random numbers that are derived from a job's secret by AES: coefficients and pads.

use std::fmt;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use sha2::{Digest, Sha256};
use tributary_wire::{JobId, JobSecret, Operator, Rank, SliceWidth};

use super::field::Field;
use super::meaning::{Meaning, Subject, SubjectDigests};
use super::products::Multipliers;
use crate::numbers::lanes::Lanes;

/// The number of bits of an encrypted block that are dropped, so that sums have room.
/// The other bits are more than enough for an even distribution below the prime.
const LEFT_OUT: u32 = 8;

/// The keys that the tags of all generations of a job share, as long as the generations use the same
/// field.
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
    /// For each lane of a slice's bounds, the number that the lane's owner adds to its tag.
    pub(super) owners: Box<[u64]>,
    /// The coefficients of a [digest](super::Membership::digest):
    /// one for each of these lanes, and `digest` for two more numbers.
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

/// Hides the numbers, which must stay as secret as the job's secret.
impl fmt::Debug for Coefficients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Coefficients(…)")
    }
}

/// The function that computes the common part of an operation's pads.
/// It is a CBC-MAC of the two blocks that identify the operation. Such a MAC is a pseudo-random function as long as all
/// messages have the same length.
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
        SubjectDigests {
            sum: digest(Operator::Sum),
            max: digest(Operator::Max),
            relay: digest(Operator::Relay),
        }
    }
}

/// The pads, which hide the rest of a tag. They differ for each member, slice and generation.
///
/// Each member has a random number for each slice: an encrypted block that identifies the slice and the member. The
/// members form a row. A member's pad is its number minus the number of the member behind it; the last member's pad is
/// its number. So pads are as random as the numbers, because each number is the sum of the pads from its member to the
/// end of the row. The pads of all members add up to the first member's number. So a receiver computes only this
/// number, for any number of members.
#[derive(Debug, Clone)]
pub(super) struct Pads(Aes128);

impl Pads {
    /// Derives the key of the pads from the secret and from the row of members.
    /// So the sums of another set of members always have other pads.
    pub(super) fn new(secret: &JobSecret, row: &[Rank]) -> Self {
        let row = row.iter().flat_map(|rank| rank.get().to_be_bytes());
        let purpose: Vec<u8> = b"pads of tags".iter().copied().chain(row).collect();
        Self(cipher(secret, purpose))
    }

    /// Returns the pad of a member, and the sum that [`of_all`](Self::of_all) returns.
    /// `behind` is the member behind it in the row, if there is one.
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

    /// Returns the sum of the pads of all members from `first` to the end of the row.
    pub(super) fn of_all(&self, job: JobId, meaning: &Meaning, first: Rank) -> i128 {
        let [number] = self.numbers(job, meaning, [first]);
        number
    }

    /// Returns the numbers of `N` members. Computing them together takes little longer than computing one.
    fn numbers<const N: usize>(&self, job: JobId, meaning: &Meaning, ranks: [Rank; N]) -> [i128; N] {
        let Meaning { subject, operator, seq, scale } = *meaning;
        let subject = match operator {
            Operator::Sum => subject.sum,
            Operator::Max => subject.max,
            Operator::Relay => subject.relay,
        };
        let slice =
            subject ^ (u128::from(scale) << 64 | u128::from(seq.0) << 32 | u128::from(job.get()) << 16);
        let mut blocks = ranks.map(|rank| Array::from((slice ^ u128::from(rank.get())).to_be_bytes()));
        self.0.encrypt_blocks(&mut blocks);
        blocks.map(|block| (u128::from_be_bytes(block.into()) >> LEFT_OUT).cast_signed())
    }
}

/// Makes the cipher for one purpose. Its key reveals nothing about the keys for other purposes.
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
