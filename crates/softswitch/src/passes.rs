//! Packets that wait for another pass through a part of the switch: clones, and packets that
//! begin ingress again.

use std::collections::VecDeque;

use crate::control::Replica;
use crate::exec::{Packet, Requests, State};
use crate::lines::clear;
use crate::program::{FieldList, Instance, Line, Program};

/// The most packets that may wait, as on BMv2; further ones are dropped.
const WAITING: usize = 1024;

/// Where a waiting packet continues.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Step {
    /// At ingress's beginning, resubmitted or recirculated.
    #[default]
    Resubmitted,
    Recirculated,
    /// At egress's beginning, with the headers of the frame as it came.
    IngressClone {
        to: Replica,
        limit: usize,
    },
    /// At egress's beginning, with the headers that it had at egress's end.
    EgressClone {
        to: Replica,
        length: usize,
    },
    /// Behind ingress: its clones went ahead.
    Forward {
        /// Lengths with the meaning of the same fields of [`Packet`](crate::exec::Packet).
        length: usize,
        limit: usize,
    },
}

/// One waiting packet.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) step: Step,
    /// The port by which it, or the packet it comes from, came in.
    pub(crate) origin: u16,
    /// Its number in the packet log.
    pub(crate) packet: u64,
    pub(crate) frame: Vec<u8>,
    /// The bits that the parser has passed.
    pub(crate) cursor: usize,
    /// The list of preserved fields.
    list: u16,
    /// Their values; for a packet that keeps its headers all fields'.
    words: Vec<u64>,
    lines: Vec<Line>,
    /// The packet's requests that the switch has not carried out.
    requests: Requests,
}

/// The waiting packets, first come, first served.
/// Once as many have waited as ever do, nothing is allocated.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    waiting: VecDeque<Pass>,
    spare: Vec<Pass>,
    /// A frame whose length is looked for.
    pub(crate) scratch: Vec<u8>,
}

impl Passes {
    /// Returns true if no packet waits.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next packet. Give it [back](Passes::give_back).
    pub(crate) fn take(&mut self) -> Option<Pass> {
        self.waiting.pop_front()
    }

    /// Takes back what [`Passes::take`] gave.
    pub(crate) fn give_back(&mut self, pass: Pass) {
        self.spare.push(pass);
    }

    /// Adds a packet that `fill` describes, if there is room. Returns whether there was.
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
    /// Keeps the values of a list's fields.
    pub(crate) fn keep_list(&mut self, program: &Program, state: &State, list: u16) {
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

    /// Gives the list's fields the values that were kept.
    pub(crate) fn restore_list(&self, program: &Program, state: &mut State) {
        let list = fields(program, self.list);
        list.words.iter().zip(&self.words).for_each(|(word, value)| state.set(*word, *value));
        let mut kept = self.lines.as_slice();
        for (line, count) in &list.lines {
            let (these, rest) = kept.split_at(usize::from(*count));
            state.lines[usize::from(*line)..][..these.len()].copy_from_slice(these);
            kept = rest;
        }
    }

    /// Keeps all fields.
    pub(crate) fn keep_all(&mut self, program: &Program, state: &State, packet: &Packet<'_>) {
        self.cursor = packet.cursor;
        self.requests = state.requests;
        self.words.clear();
        self.words.extend_from_slice(&state.words[..program.field_words]);
        self.lines.clear();
        self.lines.extend_from_slice(&state.lines[..program.field_lines]);
    }

    /// Keeps the headers, and of the metadata only a list's fields.
    pub(crate) fn keep_headers(&mut self, program: &Program, state: &State, packet: &Packet<'_>, list: u16) {
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

    /// Gives all fields the values that were kept.
    pub(crate) fn restore_all(&self, state: &mut State) {
        state.words[..self.words.len()].copy_from_slice(&self.words);
        state.lines[..self.lines.len()].copy_from_slice(&self.lines);
        state.requests = self.requests;
    }
}

fn fields(program: &Program, list: u16) -> &FieldList {
    &program.field_lists[usize::from(list)]
}

impl Step {
    /// `instance_type` of a packet at this step, as far as the step decides it.
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
