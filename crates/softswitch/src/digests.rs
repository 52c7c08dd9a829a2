//! Digests: messages about packets to the controller.
//!
//! The switch does not repeat a message before the controller acknowledges it or the message
//! expires.

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use crate::control::{DigestConfig, DigestList};
use crate::exec::MachineState;
use crate::program::{DigestFields, DigestProgram, KeySource};

/// The maximum number of messages in a list if the controller sets no limit.
const MAX_LIST: usize = 1024;
/// The maximum number of messages of a digest that wait or are not acknowledged; further ones are
/// dropped.
const MAX_KNOWN: usize = 1 << 16;
/// The maximum number of lists that wait to be fetched; further ones are dropped.
const MAX_READY: usize = 64;

/// The values of a message's fields, concatenated; each is padded to whole bytes.
type Sample = Box<[u8]>;

/// All digests of a switch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digests {
    digests: Vec<Digest>,
    /// Lists that are ready for the controller, each with the index of its digest.
    ready: Vec<(usize, DigestList)>,
    scratch: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct Digest {
    /// The controller's configuration; `None` if the digest is off.
    config: Option<DigestConfig>,
    buffer: Vec<Sample>,
    /// The time at which the buffer's first message was added.
    since: Option<Instant>,
    last_list: u64,
    /// Lists that are not acknowledged, with the times at which they were sent.
    sent: BTreeMap<u64, (Instant, Vec<Sample>)>,
    /// All messages in the buffer and in lists that are not yet acknowledged.
    known: HashSet<Sample>,
}

impl Digests {
    pub(crate) fn new(count: usize) -> Self {
        Self { digests: (0..count).map(|_| Digest::default()).collect(), ..Self::default() }
    }

    /// Adds a packet's message to the digest, unless an equal message waits or is not yet
    /// acknowledged.
    pub(crate) fn learn(
        &mut self,
        at: usize,
        program: &DigestProgram,
        fields: &DigestFields,
        state: &MachineState,
    ) {
        let Some(digest) = self.digests.get_mut(at) else { return };
        let Some(config) = digest.config else { return };
        let now = Instant::now();
        digest.forget(now, config);
        self.scratch.clear();
        for (source, bits) in fields.sources.iter().zip(&program.widths) {
            append(&mut self.scratch, *source, *bits, state);
        }
        if digest.known.contains(self.scratch.as_slice()) || digest.known.len() >= MAX_KNOWN {
            return;
        }
        let sample: Sample = self.scratch.as_slice().into();
        digest.known.insert(sample.clone());
        digest.buffer.push(sample);
        digest.since.get_or_insert(now);
        let most = if config.max_list_size == 0 { MAX_LIST } else { config.max_list_size };
        if digest.buffer.len() >= most.min(MAX_LIST) || config.max_timeout.is_zero() {
            self.close(at, program, config, now);
        }
    }

    /// Closes the lists that have reached their maximum waiting time.
    pub(crate) fn close_late(&mut self, programs: &[DigestProgram], now: Instant) {
        for (at, program) in programs.iter().enumerate() {
            let Some(digest) = self.digests.get_mut(at) else { continue };
            let Some(config) = digest.config else { continue };
            digest.forget(now, config);
            let late =
                digest.since.is_some_and(|since| now.saturating_duration_since(since) >= config.max_timeout);
            if late {
                self.close(at, program, config, now);
            }
        }
    }

    /// Returns the time at which the next list reaches its maximum waiting time.
    pub(crate) fn next_late(&self) -> Option<Instant> {
        let late = |digest: &Digest| Some(digest.since? + digest.config?.max_timeout);
        self.digests.iter().filter_map(late).min()
    }

    /// Returns true if lists are ready to be fetched.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes the lists that are ready for the controller, each with the index of its digest.
    pub(crate) fn take_ready(&mut self) -> Vec<(usize, DigestList)> {
        std::mem::take(&mut self.ready)
    }

    pub(crate) fn config(&self, at: usize) -> Option<DigestConfig> {
        self.digests.get(at)?.config
    }

    /// Sets the configuration of a digest; `None` turns the digest off.
    pub(crate) fn configure(&mut self, at: usize, config: Option<DigestConfig>) {
        let Some(digest) = self.digests.get_mut(at) else { return };
        digest.config = config;
        if config.is_none() {
            *digest = Digest { last_list: digest.last_list, ..Digest::default() };
        }
    }

    /// Acknowledges a list, so that the switch may send its messages again.
    pub(crate) fn acknowledge(&mut self, at: usize, list: u64) {
        if let Some(digest) = self.digests.get_mut(at)
            && let Some((_, samples)) = digest.sent.remove(&list)
        {
            digest.unlearn(&samples);
        }
    }

    fn close(&mut self, at: usize, program: &DigestProgram, config: DigestConfig, now: Instant) {
        let digest = &mut self.digests[at];
        digest.since = None;
        digest.last_list += 1;
        let samples = std::mem::take(&mut digest.buffer);
        let messages = samples.iter().map(|sample| split(sample, program)).collect();
        if config.ack_timeout.is_zero() || self.ready.len() >= MAX_READY {
            digest.unlearn(&samples);
        } else {
            digest.sent.insert(digest.last_list, (now, samples));
        }
        if self.ready.len() < MAX_READY {
            self.ready.push((at, DigestList { list_id: digest.last_list, messages }));
        }
    }
}

impl Digest {
    fn unlearn(&mut self, samples: &[Sample]) {
        for sample in samples {
            self.known.remove(sample);
        }
    }

    /// Removes the lists that the controller did not acknowledge in time.
    fn forget(&mut self, now: Instant, config: DigestConfig) {
        while let Some(oldest) = self.sent.first_entry() {
            if now.saturating_duration_since(oldest.get().0) < config.ack_timeout {
                break;
            }
            let (_, samples) = oldest.remove();
            self.unlearn(&samples);
        }
    }
}

/// Appends a field's value.
fn append(bytes: &mut Vec<u8>, source: KeySource, bits: u32, state: &MachineState) {
    let length = bits.div_ceil(8) as usize;
    match source {
        KeySource::Word(word) => bytes.extend_from_slice(&state.get(word).to_be_bytes()[8 - length..]),
        KeySource::Lines(line, count) => {
            let limbs = &state.lines[usize::from(line)..].as_flattened()[..count];
            let all = limbs.iter().rev().flat_map(|limb| limb.to_be_bytes());
            bytes.extend(all.skip(count * 8 - length));
        }
    }
}

/// Splits a message into the canonical values of its fields.
fn split(mut sample: &[u8], program: &DigestProgram) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    for bits in &program.widths {
        let (value, rest) = sample.split_at(bits.div_ceil(8) as usize);
        let zeros = value.iter().take_while(|byte| **byte == 0).count();
        values.push(value[zeros.min(value.len().saturating_sub(1))..].to_vec());
        sample = rest;
    }
    values
}
