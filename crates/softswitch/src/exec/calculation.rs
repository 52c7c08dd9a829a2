//! Hashes and checksums over a string of bits.

use super::headers::header_bytes;
use super::{MachineState, Packet, bits, checksum, wire};
use crate::program::{
    Algorithm, Calculation, CalculationInput, Checksum, Format, Header, Line, Place, Program, WORDS,
};

/// The remainders of CRC-32, reflected.
const CRC32: [u32; 256] = reflected(0xedb8_8320);
/// The remainders of CRC-16, reflected.
const CRC16: [u32; 256] = reflected(0xa001);

/// Returns the remainder of each byte by a polynomial.
///
/// The lowest bit of the polynomial is the coefficient of its highest power.
const fn reflected(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 1 == 1 { remainder >> 1 ^ polynomial } else { remainder >> 1 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
}

impl MachineState {
    /// Computes the result of a calculation.
    pub(super) fn calculate(&mut self, program: &Program, packet: &Packet<'_>, calculation: u16) -> u64 {
        let calculation = &program.calculations[usize::from(calculation)];
        let fields = Fields::of(program, &self.words, &self.lines);
        fields.calculate(calculation, packet.payload(), &mut self.bytes)
    }

    /// Returns the value that a checksum's field must have.
    pub(crate) fn checksum(&mut self, program: &Program, packet: &Packet<'_>, checksum: &Checksum) -> u64 {
        let result = match &checksum.sum {
            Some(sum) if sum.headers.iter().all(|word| self.get(*word) != 0) => {
                checksum::compute(sum, &*self.words, &self.lines)
            }
            _ => self.calculate(program, packet, checksum.calculation),
        };
        result & checksum.mask
    }
}

/// The parts of a packet that calculations read.
pub(super) struct Fields<'a> {
    headers: &'a [Header],
    formats: &'a [Format],
    words: &'a [u64; WORDS],
    lines: &'a [Line],
}

impl<'a> Fields<'a> {
    pub(super) fn of(program: &'a Program, words: &'a [u64; WORDS], lines: &'a [Line]) -> Self {
        Self { headers: &program.headers, formats: &program.formats, words, lines }
    }

    /// Computes the result of a calculation. `bytes` is a buffer for the input string.
    pub(super) fn calculate(&self, calculation: &Calculation, payload: &[u8], bytes: &mut Vec<u8>) -> u64 {
        bytes.clear();
        let mut string = BitString { bytes, bits: 0 };
        for input in &calculation.inputs {
            self.append(*input, &mut string);
        }
        if calculation.payload {
            bytes.extend_from_slice(payload);
        }
        compute(calculation.algorithm, bytes)
    }

    fn append(&self, input: CalculationInput, string: &mut BitString<'_>) {
        let get = |word| self.words[usize::from(word)];
        match input {
            CalculationInput::Field { valid: Some(valid), .. } if get(valid) == 0 => {}
            CalculationInput::Field { place, bits, length, .. } => {
                let most = u64::from(bits);
                let bits = length.map_or(most, |word| get(word).min(most)) as usize;
                match place {
                    Place::Word(word) => string.append(bits, &[get(word)]),
                    Place::Lines(line) => string.append(bits, self.lines[usize::from(line)..].as_flattened()),
                }
            }
            CalculationInput::Header(header) => {
                let header = self.headers[usize::from(header)];
                if get(header.word) != 0 {
                    let format = &self.formats[usize::from(header.format)];
                    let (begin, length) = (string.bytes.len(), header_bytes(format, header, self.words));
                    string.bytes.resize(begin + length, 0);
                    wire::emit(format, header, self.words, self.lines, &mut string.bytes[begin..]);
                    string.bits = string.bytes.len() * 8;
                }
            }
        }
    }
}

/// A string of bits; the last byte is filled with zeros.
struct BitString<'a> {
    bytes: &'a mut Vec<u8>,
    bits: usize,
}

impl BitString<'_> {
    /// Appends the lowest `count` bits of a number.
    fn append(&mut self, count: usize, limbs: &[u64]) {
        let begin = self.bits;
        self.bits += count;
        self.bytes.resize(self.bits.div_ceil(8), 0);
        bits::write_limbs(self.bytes, begin, count, limbs);
    }
}

fn compute(algorithm: Algorithm, bytes: &[u8]) -> u64 {
    match algorithm {
        Algorithm::Internet => {
            let words = bytes.chunks(2).map(word);
            let mut sum: u64 = words.map(u64::from).sum();
            while sum > 0xffff {
                sum = (sum >> 16) + (sum & 0xffff);
            }
            !sum & 0xffff
        }
        Algorithm::Crc32 => u64::from(!crc(&CRC32, u32::MAX, bytes)),
        Algorithm::Crc16 => u64::from(crc(&CRC16, 0, bytes)),
        Algorithm::CrcCcitt => bytes.iter().fold(0xffff_u16, |crc, byte| crc_ccitt(crc, *byte)).into(),
        Algorithm::Xor16 => bytes.chunks(2).map(word).fold(0, |xor, word| xor ^ word).into(),
        Algorithm::Identity => bytes.iter().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte)),
        Algorithm::Random => rand::random(),
    }
}

/// Returns two bytes as a number; a missing byte is 0.
fn word(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes.first().copied().unwrap_or(0), bytes.get(1).copied().unwrap_or(0)])
}

fn crc(table: &[u32; 256], begin: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(begin, |crc, byte| crc >> 8 ^ table[usize::from(crc as u8 ^ byte)])
}

fn crc_ccitt(crc: u16, byte: u8) -> u16 {
    (0..8).fold(
        crc ^ u16::from(byte) << 8,
        |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithms_give_their_check_values() {
        let check = b"123456789";
        assert_eq!(compute(Algorithm::Crc16, check), 0xbb3d);
        assert_eq!(compute(Algorithm::Crc32, check), 0xcbf4_3926);
        assert_eq!(compute(Algorithm::Identity, check), 0x3132_3334_3536_3738);
        assert_eq!(compute(Algorithm::Xor16, &[0x12, 0x34, 0xff]), 0xed34);
        assert_eq!(compute(Algorithm::Internet, &[0xff, 0xff, 0x00, 0x02]), 0xfffd);
    }

    #[test]
    fn fields_are_packed_bit_by_bit() {
        let input = |word, bits, valid| CalculationInput::Field {
            place: Place::Word(word),
            bits,
            length: None,
            valid,
        };
        let wide = CalculationInput::Field { place: Place::Lines(0), bits: 68, length: None, valid: None };
        let hash = |inputs: Vec<CalculationInput>, first: &[u64]| {
            let mut words = Box::new([0; WORDS]);
            words[..first.len()].copy_from_slice(first);
            let lines = [[0x0123_4567_89ab_cdef, 0xa, 0, 0, 0, 0, 0, 0]];
            let fields = Fields { headers: &[], formats: &[], words: &words, lines: &lines };
            let calculation = Calculation { algorithm: Algorithm::Identity, inputs, payload: false };
            fields.calculate(&calculation, &[], &mut Vec::new())
        };
        let packed = vec![input(0, 4, None), wide, input(1, 3, None), input(2, 5, None)];
        assert_eq!(hash(packed, &[0xf, 5, 3]), 0xfa01_2345_6789_abcd);
        assert_eq!(hash(vec![input(1, 8, Some(0)), input(2, 8, None)], &[0, 5, 3]), 3);
    }
}
