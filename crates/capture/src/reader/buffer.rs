//! The part of a file that is in memory.

use std::io::{ErrorKind, Read};

use crate::error::Problem;

/// The number of bytes that are read at once.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Buffer<R> {
    source: R,
    bytes: Vec<u8>,
    /// The index in `bytes` of the first byte that was not consumed.
    begin: usize,
    /// The offset of that byte in the file.
    offset: u64,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, bytes: Vec::new(), begin: 0, offset: 0 }
    }

    /// Returns the bytes that were read but not consumed.
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or_default()
    }

    /// Returns the offset of [`Buffer::unread`] in the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes bytes and returns them.
    pub(super) fn consume(&mut self, bytes: usize) -> &[u8] {
        let begin = self.begin;
        self.begin = self.bytes.len().min(begin + bytes);
        self.offset += (self.begin - begin) as u64;
        &self.bytes[begin..self.begin]
    }

    /// Reads more bytes; returns false at the end of the file. The buffer grows only with bytes that the
    /// file really has, not with the lengths that it states.
    pub(super) fn fill(&mut self) -> Result<bool, Problem> {
        if self.begin > 0 {
            self.bytes.drain(..self.begin);
            self.begin = 0;
        }
        let old = self.bytes.len();
        self.bytes.resize(old + PIECE, 0);
        let read = loop {
            match self.source.read(&mut self.bytes[old..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(old + read.as_ref().copied().unwrap_or_default());
        read.map(|bytes| bytes > 0).map_err(Problem::Read)
    }
}
