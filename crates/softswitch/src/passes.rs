//! Packets that wait for another pass through a part of the switch: clones, and packets that
//! begin ingress again.

use std::collections::VecDeque;

use crate::control::Replica;
use crate::exec::{MachineState, Packet, Requests};
use crate::lines::clear;
use crate::program::{FieldList, Instance, Line, Program};

/// The maximum number of packets that may wait, as on BMv2; further ones are dropped.
const WAITING: usize = 1024;

/// The point at which a waiting packet continues.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum ResumePoint {
    /// At the beginning of ingress, like `Recirculated`.
    #[default]
    Resubmitted,
    Recirculated,
    /// At the beginning of egress, with the headers of the frame as received.
    IngressClone {
        to: Replica,
        limit: usize,
    },
    /// At the beginning of egress, with the headers that the packet had at the end of egress.
    EgressClone {
        to: Replica,
        length: usize,
    },
    /// After ingress. The packet waited because its clones were processed first.
    Forward {
        /// Length and limit with the same meaning as in [`Packet`](crate::exec::Packet).
        length: usize,
        limit: usize,
    },
}

/// One waiting packet.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) step: ResumePoint,
    /// The port that received the packet, or the packet from which it was copied.
    pub(crate) origin: u16,
    /// The packet's number in the packet log.
    pub(crate) packet: u64,
    pub(crate) frame: Vec<u8>,
    /// The bits that the parser has passed.
    pub(crate) cursor: usize,
    /// Index of the list of preserved fields.
    list: u16,
    /// The values of the preserved fields; of all fields if the packet keeps its headers.
    words: Vec<u64>,
    lines: Vec<Line>,
    /// The packet's requests that the switch has not carried out.
    requests: Requests,
}

/// The waiting packets, in the order of their arrival.
/// It reuses memory, so it allocates nothing after its peak number of packets.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    waiting: VecDeque<Pass>,
    spare: Vec<Pass>,
    /// A buffer for a frame that is written only to measure its length.
    pub(crate) scratch: Vec<u8>,
}

impl Passes {
    /// Returns true if no packet waits.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the next packet. Return it with [`give_back`](Passes::give_back) afterwards.
    pub(crate) fn take(&mut self) -> Option<Pass> {
        self.waiting.pop_front()
    }

    /// Takes back a packet that [`Passes::take`] returned, to reuse its memory.
    pub(crate) fn give_back(&mut self, pass: Pass) {
        self.spare.push(pass);
    }

    /// Adds a packet that `fill` describes. Returns false if too many packets wait.
    pub(crate) fn add(&mut self, fill: impl FnOnce(&mut Pass)) -> bool {
        if self.waiting.len() >= WAITING {
            return false;
        }
        let mut pass = self.spare.pop().unwrap_or_default();
        pass.frame.clear();
        fill(&mut pass);
        self.waiting.push_back(pass);
        true
    }
}

impl Pass {
    /// Saves the values of a list's fields.
    pub(crate) fn keep_list(&mut self, program: &Program, state: &MachineState, list: u16) {
        self.list = list;
        self.cursor = 0;
        let list = fields(program, list);
        self.words.clear();
        self.words.extend(list.words.iter().map(|word| state.get(*word)));
        self.lines.clear();
        for (line, count) in &list.lines {
            self.lines.extend_from_slice(&state.lines[usize::from(*line)..][..usize::from(*count)]);
        }
    }

    /// Restores the saved values of the list's fields.
    pub(crate) fn restore_list(&self, program: &Program, state: &mut MachineState) {
        let list = fields(program, self.list);
        list.words.iter().zip(&self.words).for_each(|(word, value)| state.set(*word, *value));
        let mut kept = self.lines.as_slice();
        for (line, count) in &list.lines {
            let (these, rest) = kept.split_at(usize::from(*count));
            state.lines[usize::from(*line)..][..these.len()].copy_from_slice(these);
            kept = rest;
        }
    }

    /// Saves all fields.
    pub(crate) fn keep_all(&mut self, program: &Program, state: &MachineState, packet: &Packet<'_>) {
        self.cursor = packet.cursor;
        self.requests = state.requests;
        self.words.clear();
        self.words.extend_from_slice(&state.words[..program.field_words]);
        self.lines.clear();
        self.lines.extend_from_slice(&state.lines[..program.field_lines]);
    }

    /// Saves the headers, and only those metadata fields that are in a list.
    pub(crate) fn keep_headers(
        &mut self,
        program: &Program,
        state: &MachineState,
        packet: &Packet<'_>,
        list: u16,
    ) {
        self.keep_all(program, state, packet);
        self.requests = Requests::default();
        self.words[..program.metadata_words].fill(0);
        clear(&mut self.lines[..program.metadata_lines]);
        let list = fields(program, list);
        list.words.iter().for_each(|word| self.words[usize::from(*word)] = state.get(*word));
        for (line, count) in &list.lines {
            let range = usize::from(*line)..usize::from(*line) + usize::from(*count);
            self.lines[range.clone()].copy_from_slice(&state.lines[range]);
        }
    }

    /// Restores the saved values of all fields.
    pub(crate) fn restore_all(&self, state: &mut MachineState) {
        state.words[..self.words.len()].copy_from_slice(&self.words);
        state.lines[..self.lines.len()].copy_from_slice(&self.lines);
        state.requests = self.requests;
    }
}

fn fields(program: &Program, list: u16) -> &FieldList {
    &program.field_lists[usize::from(list)]
}

impl ResumePoint {
    /// Returns the `instance_type` of a packet at this step; `None` if the step does not determine
    /// it.
    pub(crate) fn instance(self) -> Option<Instance> {
        match self {
            Self::Resubmitted => Some(Instance::Resubmitted),
            Self::Recirculated => Some(Instance::Recirculated),
            Self::IngressClone { .. } => Some(Instance::IngressClone),
            Self::EgressClone { .. } => Some(Instance::EgressClone),
            Self::Forward { .. } => None,
        }
    }
}
