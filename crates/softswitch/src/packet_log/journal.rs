//! Collects what becomes of one packet.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::PacketLog;
use super::event::{Block, Cause, Event};
use crate::program::Line;

/// The most events that are logged of a packet: a parser or an action can loop many times.
const MOST_EVENTS: usize = 2048;

/// The log of a switch's packets, and the events of the current packet until now.
#[derive(Debug)]
pub(crate) struct Journal {
    log: PacketLog,
    /// Number of packets that have come in.
    received: u64,
    current: Option<Block>,
    /// The packet's fields at the last report of changes.
    pub(super) words: Vec<u64>,
    pub(super) lines: Vec<Line>,
    /// Which ports there are, and whether they work.
    ports: BTreeMap<u16, bool>,
}

impl Journal {
    pub(crate) fn new(log: PacketLog) -> Self {
        Self { log, received: 0, current: None, words: Vec::new(), lines: Vec::new(), ports: BTreeMap::new() }
    }

    /// Records that a port exists, and its state: `up` is true if it works.
    pub(crate) fn set_port(&mut self, port: u16, up: bool) {
        self.ports.insert(port, up);
    }

    /// A packet has come in.
    pub(crate) fn receive(&mut self, port: u16, length: usize) {
        self.received += 1;
        self.begin(self.received, Cause::Received, port, length);
    }

    /// A packet that has waited goes on, or begins again.
    pub(crate) fn begin(&mut self, packet: u64, cause: Cause, port: u16, length: usize) {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = since_1970.as_secs_f64();
        self.current = Some(Block { packet, time, cause, port, length, events: Vec::new() });
    }

    /// The number of the current packet.
    pub(crate) fn packet(&self) -> u64 {
        self.current.as_ref().map_or(0, |block| block.packet)
    }

    /// The packet has come to an end, or waits.
    pub(crate) fn end(&mut self) {
        if let Some(block) = self.current.take() {
            self.log.log(&block);
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        let Some(block) = &mut self.current else { return };
        match block.events.len() {
            ..MOST_EVENTS => block.events.push(event),
            MOST_EVENTS => block.events.push(Event::More),
            _ => {}
        }
    }

    /// The program logs something.
    pub(crate) fn message(&mut self, text: String) {
        self.push(Event::Message { text });
    }

    /// The packet leaves.
    pub(crate) fn send(&mut self, port: u64, length: usize) {
        let known = u16::try_from(port).ok().and_then(|port| self.ports.get(&port).copied());
        let up = if self.ports.is_empty() { None } else { Some(known.unwrap_or(false)) };
        self.push(Event::Send { port, length, up });
    }
}
