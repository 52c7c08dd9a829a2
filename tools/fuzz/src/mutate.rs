//! Mutations of inputs, for runs without an engine.
//!
//! A given seed makes the same inputs on every machine.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Values that parsers most often handle wrongly: the ends of ranges, and changes of sign.
const INTERESTING: [u64; 12] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
];

/// Makes inputs from a corpus.
#[derive(Debug, Clone)]
pub struct Mutator {
    random: ChaCha8Rng,
    corpus: Vec<Vec<u8>>,
    max_len: usize,
}

impl Mutator {
    /// Makes a mutator. `seed` and the corpus determine all inputs.
    pub fn new(corpus: Vec<Vec<u8>>, max_len: usize, seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), corpus, max_len }
    }

    /// Makes another input: an input of the corpus with some changes, usually few.
    pub fn input(&mut self) -> Vec<u8> {
        let mut input = self.one();
        for _ in 0..1 << self.random.random_range(0..4) {
            self.change(&mut input);
        }
        input.truncate(self.max_len);
        input
    }

    fn one(&mut self) -> Vec<u8> {
        match self.corpus.len() {
            0 => Vec::new(),
            len => self.corpus[self.random.random_range(0..len)].clone(),
        }
    }

    /// Draws a position in the input, including its end.
    ///
    /// Half of the positions are in the headers at the front.
    fn place(&mut self, input: &[u8]) -> usize {
        let most = if self.random.random() { input.len() } else { input.len().min(80) };
        self.random.random_range(0..=most)
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.place(input);
        let few = self.random.random_range(1..9_usize);
        let end = (at + few).min(input.len());
        match self.random.random_range(0..8) {
            0 => input.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (few - 1)),
            1 | 2 => {
                let value = self.random.random();
                input.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
            }
            3 => {
                let number = INTERESTING[self.random.random_range(0..INTERESTING.len())];
                let big: bool = self.random.random();
                let len = 1 << (few % 4);
                let bytes = if big { number.to_be_bytes() } else { number.to_le_bytes() };
                let bytes = if big { &bytes[8 - len..] } else { &bytes[..len] };
                input.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
            }
            4 => drop(input.drain(at..end)),
            5 => {
                let bytes: Vec<u8> = (0..few).map(|_| self.random.random()).collect();
                input.splice(at..at, bytes);
            }
            6 => {
                let part = input[at..end].to_vec();
                let to = self.place(input);
                input.splice(to..to, part);
            }
            _ => {
                let other = self.one();
                let from = self.place(&other);
                input.splice(at.., other[from..].iter().copied());
            }
        }
    }
}
