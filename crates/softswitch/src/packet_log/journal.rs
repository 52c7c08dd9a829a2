//! Collects the events of one packet.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::PacketLog;
use super::event::{Cause, Event, PassEvents};
use crate::program::Line;

/// The maximum number of events that are logged for a packet, because a parser or an action can
/// loop many times.
const MOST_EVENTS: usize = 2048;

/// The log of a switch's packets, and the events of the current packet.
#[derive(Debug)]
pub(crate) struct Journal {
    log: PacketLog,
    /// Number of packets that have come in.
    received: u64,
    current: Option<PassEvents>,
    /// The packet's fields at the last report of changes.
    pub(super) words: Vec<u64>,
    pub(super) lines: Vec<Line>,
    /// The switch's ports, each with true if the port works.
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

    /// Records that a port has received a packet.
    pub(crate) fn receive(&mut self, port: u16, length: usize) {
        self.received += 1;
        self.begin(self.received, Cause::Received, port, length);
    }

    /// Records that a waiting packet continues, or begins ingress again.
    pub(crate) fn begin(&mut self, packet: u64, cause: Cause, port: u16, length: usize) {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = since_1970.as_secs_f64();
        self.current = Some(PassEvents { packet, time, cause, port, length, events: Vec::new() });
    }

    /// Returns the number of the current packet.
    pub(crate) fn packet(&self) -> u64 {
        self.current.as_ref().map_or(0, |pass| pass.packet)
    }

    /// Writes the packet's events to the log, because the packet has ended or waits.
    pub(crate) fn end(&mut self) {
        if let Some(pass) = self.current.take() {
            self.log.log(&pass);
        }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        let Some(pass) = &mut self.current else { return };
        match pass.events.len() {
            ..MOST_EVENTS => pass.events.push(event),
            MOST_EVENTS => pass.events.push(Event::More),
            _ => {}
        }
    }

    /// Records a message that the program logs.
    pub(crate) fn message(&mut self, text: String) {
        self.push(Event::Message { text });
    }

    /// Records that the packet leaves.
    pub(crate) fn send(&mut self, port: u64, length: usize) {
        let known = u16::try_from(port).ok().and_then(|port| self.ports.get(&port).copied());
        let up = if self.ports.is_empty() { None } else { Some(known.unwrap_or(false)) };
        self.push(Event::Send { port, length, up });
    }
}
