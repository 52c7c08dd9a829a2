//! The path of a packet through the switch: ingress, egress, and the requests at the end of each.

use crate::control::Replica;
use crate::digests::Digests;
use crate::exec::{MachineState, Packet, Requests};
use crate::outputs::Outputs;
use crate::packet_log::{Cause, Event, Journal};
use crate::passes::{Pass, Passes, ResumePoint};
use crate::pre::Replication;
use crate::program::{CodeIndex, DROP_PORT, Instance, Line, Program};

/// Event of a packet that the switch drops because too many packets wait.
const TOO_MANY: Event = Event::Drop { reason: "too many packets wait for another pass" };
const DROPPED_BY_EGRESS: Event = Event::Drop { reason: "by egress" };

/// The state of a packet between ingress and egress when several copies are made.
#[derive(Debug, Default)]
pub(crate) struct SavedPacket {
    words: Vec<u64>,
    lines: Vec<Line>,
}

/// The parts of the switch that process a packet. The code for the packet log exists only if
/// `LOGGED` is true.
pub(crate) struct Path<'a, const LOGGED: bool> {
    pub(crate) program: &'a Program,
    pub(crate) state: &'a mut MachineState,
    pub(crate) replication: &'a Replication,
    pub(crate) saved: &'a mut SavedPacket,
    pub(crate) passes: &'a mut Passes,
    pub(crate) digests: &'a mut Digests,
    pub(crate) outputs: &'a mut Outputs,
    /// The port that received the packet.
    pub(crate) origin: u16,
}

impl<const LOGGED: bool> Path<'_, LOGGED> {
    /// Writes to the packet log.
    #[inline(always)]
    fn log(&mut self, tell: impl FnOnce(&mut Journal)) {
        if LOGGED {
            self.state.tell(|journal, _| tell(journal));
        }
    }

    /// Runs code, and logs the fields and headers that the code changed.
    #[inline(always)]
    fn run(&mut self, packet: &mut Packet<'_>, entry: CodeIndex) {
        if LOGGED {
            self.state.tell(|journal, state| journal.look(self.program, state));
        }
        self.state.run(self.program, packet, entry);
        if LOGGED {
            self.state.tell(|journal, state| journal.tell_changes(self.program, state));
        }
    }

    /// Runs the parser and ingress, and all following steps that need not wait.
    pub(crate) fn ingress(&mut self, packet: &mut Packet<'_>) {
        let entries = self.program.entries;
        if let Some(clocks) = self.program.standard.clocks {
            self.state.set(clocks.ingress.0, self.state.now() & clocks.ingress.1);
        }
        self.run(packet, entries.parser);
        if LOGGED {
            self.state.tell(|journal, state| journal.parsed(self.program, state));
        }
        self.run(packet, entries.verify);
        self.log(|journal| journal.push(Event::Control { name: "ingress" }));
        self.run(packet, entries.ingress);
        if self.state.requests.is_empty() {
            self.forward(packet);
        } else {
            self.end_ingress(packet);
        }
    }

    /// Carries out the requests that a packet made in ingress. The clone comes first, as on BMv2.
    #[cold]
    fn end_ingress(&mut self, packet: &mut Packet<'_>) {
        let Requests { clone, resubmit, recirculate, digest } = self.state.requests;
        // Of all requests in ingress, only the request to recirculate still applies after egress.
        self.state.requests = Requests { recirculate, ..Requests::default() };
        let cloned = clone.is_some_and(|(session, list)| self.clone_from_ingress(session, list, packet));
        let (program, state, origin) = (self.program, &*self.state, self.origin);
        if let Some(list) = digest.map(usize::from) {
            let known = &program.digest_lists[list];
            self.digests.learn(known.digest, &program.digests[known.digest], known, state);
            let name = &program.digests[known.digest].name;
            self.log(|journal| journal.push(Event::Digest { name: name.clone() }));
        }
        let state = &*self.state;
        if let Some(list) = resubmit {
            let waits = self.passes.add(|pass| {
                pass.begin(ResumePoint::Resubmitted, origin, packet.frame);
                pass.number(state);
                pass.keep_list(program, state, list);
            });
            self.log(|journal| journal.push(if waits { Event::Resubmit } else { TOO_MANY }));
        } else if cloned {
            let waits = self.passes.add(|pass| {
                let step = ResumePoint::Forward { length: packet.length, limit: packet.limit };
                pass.begin(step, origin, packet.frame);
                pass.number(state);
                pass.keep_all(program, state, packet);
            });
            if !waits {
                self.log(|journal| journal.push(TOO_MANY));
            }
        } else {
            self.forward(packet);
        }
    }

    /// Adds the clones that a packet requested in ingress. Returns true if the session
    /// exists.
    fn clone_from_ingress(&mut self, session: u16, list: u16, packet: &Packet<'_>) -> bool {
        self.log_clone(session);
        let Some(session) = self.replication.session(session) else { return false };
        let (program, state, origin) = (self.program, &*self.state, self.origin);
        let limit = session.limit();
        for to in session.replicas.iter().copied() {
            self.passes.add(|pass| {
                pass.begin(ResumePoint::IngressClone { to, limit }, origin, packet.frame);
                pass.number(state);
                pass.keep_list(program, state, list);
            });
        }
        true
    }

    fn log_clone(&mut self, session: u16) {
        let replicas = self.replication.session(session).map(|session| &session.replicas);
        let to = || replicas.map(|replicas| replicas.iter().map(|to| (*to).into()).collect());
        self.log(|journal| journal.push(Event::Clone { session, to: to() }));
    }

    /// Sends the packet to the destination that ingress chose.
    fn forward(&mut self, packet: &mut Packet<'_>) {
        let standard = &self.program.standard;
        let group = self.state.get(standard.mcast_grp);
        let port = self.state.get(standard.egress_spec);
        if group != 0 {
            self.multicast(packet, group);
        } else if port != DROP_PORT {
            self.state.set(standard.instance_type, Instance::Normal.into());
            self.egress(packet, port);
        } else {
            self.log(|journal| journal.push(Event::Drop { reason: "by ingress" }));
        }
    }

    /// Sends a copy of the packet to each replica.
    fn multicast(&mut self, packet: &Packet<'_>, group: u64) {
        let program = self.program;
        let replicas = self.replication.replicas(group);
        self.log(|journal| {
            let to = replicas.iter().map(|to| (*to).into()).collect();
            journal.push(Event::Multicast { group, to });
        });
        let lines = if program.egress_changes_lines { program.field_lines } else { 0 };
        if replicas.len() > 1 {
            self.saved.words.clear();
            self.saved.words.extend_from_slice(&self.state.words[..program.field_words]);
            self.saved.lines.clear();
            self.saved.lines.extend_from_slice(&self.state.lines[..lines]);
        }
        for (index, replica) in replicas.iter().enumerate() {
            if index > 0 {
                self.state.words[..program.field_words].copy_from_slice(&self.saved.words);
                self.state.lines[..lines].copy_from_slice(&self.saved.lines);
            }
            // A copy starts without requests.
            self.state.requests = Requests::default();
            self.state.set(program.standard.instance_type, Instance::Replica.into());
            self.egress_to(&mut packet.clone(), *replica);
        }
    }

    fn egress_to(&mut self, packet: &mut Packet<'_>, to: Replica) {
        self.state.set(self.program.standard.egress_rid, to.instance.into());
        self.egress(packet, to.port.into());
    }

    /// Runs egress and the deparser.
    fn egress(&mut self, packet: &mut Packet<'_>, port: u64) {
        let (program, standard) = (self.program, &self.program.standard);
        self.state.set(standard.egress_port, port);
        self.state.set(standard.egress_spec, 0);
        self.state.set(standard.packet_length, packet.length as u64);
        if let Some(clocks) = standard.clocks {
            let now = self.state.now();
            self.state.set(clocks.enqueued.0, now & clocks.enqueued.1);
            self.state.set(clocks.egress.0, now & clocks.egress.1);
        }
        if LOGGED {
            let instance = self.state.get(standard.egress_rid) as u16;
            self.log(|journal| journal.push(Event::Egress { port, instance }));
        }
        self.run(packet, program.entries.egress);
        if !self.state.requests.is_empty() {
            return self.end_egress(packet, port);
        }
        if self.state.get(standard.egress_spec) == DROP_PORT {
            return self.log(|journal| journal.push(DROPPED_BY_EGRESS));
        }
        self.deparse(packet, port);
    }

    fn deparse(&mut self, packet: &mut Packet<'_>, port: u64) {
        self.update(packet);
        let Self { program, state, .. } = self;
        let room = program.header_bytes + packet.payload().len();
        let mut length = 0;
        self.outputs.add(port as u16, self.origin, room, |bytes| {
            length = state.deparse(program, packet, bytes).min(packet.limit);
            length
        });
        self.log(|journal| journal.send(port, length));
    }

    /// Updates checksums, and runs the deparser's statements.
    #[inline(always)]
    fn update(&mut self, packet: &mut Packet<'_>) {
        self.log(|journal| journal.push(Event::Control { name: "deparser" }));
        self.run(packet, self.program.entries.update);
    }

    /// Carries out the requests that a packet made in egress, and the requests from ingress that
    /// are due now.
    #[cold]
    fn end_egress(&mut self, packet: &mut Packet<'_>, port: u64) {
        let Requests { clone, recirculate, .. } = std::mem::take(&mut self.state.requests);
        if let Some((session, list)) = clone {
            self.clone_from_egress(session, list, packet);
        }
        if self.state.get(self.program.standard.egress_spec) == DROP_PORT {
            return self.log(|journal| journal.push(DROPPED_BY_EGRESS));
        }
        let Some(list) = recirculate else { return self.deparse(packet, port) };
        self.update(packet);
        let (program, state, origin) = (self.program, &*self.state, self.origin);
        let waits = self.passes.add(|pass| {
            pass.begin(ResumePoint::Recirculated, origin, &[]);
            pass.number(state);
            emit(program, state, packet, &mut pass.frame);
            pass.keep_list(program, state, list);
        });
        self.log(|journal| journal.push(if waits { Event::Recirculate } else { TOO_MANY }));
    }

    fn clone_from_egress(&mut self, session: u16, list: u16, packet: &Packet<'_>) {
        self.log_clone(session);
        let Some(session) = self.replication.session(session) else { return };
        let (program, state, origin) = (self.program, &*self.state, self.origin);
        let mut scratch = std::mem::take(&mut self.passes.scratch);
        emit(program, state, packet, &mut scratch);
        let length = scratch.len();
        self.passes.scratch = scratch;
        // The limit cuts off only payload, never headers.
        let cut = length.saturating_sub(session.limit()).min(packet.payload().len());
        let frame = &packet.frame[..packet.frame.len() - cut];
        for to in session.replicas.iter().copied() {
            self.passes.add(|pass| {
                pass.begin(ResumePoint::EgressClone { to, length: length - cut }, origin, frame);
                pass.number(state);
                pass.keep_headers(program, state, packet, list);
            });
        }
    }

    /// Continues with a packet that has waited.
    pub(crate) fn go_on(&mut self, pass: &Pass) {
        let (program, standard) = (self.program, &self.program.standard);
        let frame = pass.frame.as_slice();
        let mut packet = Packet::new(frame);
        packet.cursor = pass.cursor;
        self.log(|journal| {
            journal.begin(pass.packet, pass.step.cause(), pass.origin, frame.len());
        });
        match pass.step {
            ResumePoint::Resubmitted | ResumePoint::Recirculated => {
                self.state.reset(program);
                pass.restore_list(program, self.state);
                self.set_instance(pass.step);
                self.state.set(standard.packet_length, frame.len() as u64);
                self.ingress(&mut packet);
            }
            ResumePoint::IngressClone { to, limit } => {
                self.state.reset(program);
                // The parser must read the same port as in the first pass.
                self.state.set(standard.ingress_port, self.origin.into());
                self.run(&mut packet, program.entries.parser);
                // Metadata that the parser has written is cleared, as on BMv2.
                self.state.reset_metadata(program);
                pass.restore_list(program, self.state);
                self.set_instance(pass.step);
                packet.frame = &frame[..frame.len().min(limit.max(packet.cursor.div_ceil(8)))];
                packet.length = packet.frame.len();
                self.egress_to(&mut packet, to);
            }
            ResumePoint::EgressClone { to, length } => {
                pass.restore_all(self.state);
                self.set_instance(pass.step);
                packet.length = length;
                self.egress_to(&mut packet, to);
            }
            ResumePoint::Forward { length, limit } => {
                pass.restore_all(self.state);
                (packet.length, packet.limit) = (length, limit);
                self.forward(&mut packet);
            }
        }
        self.log(Journal::end);
    }

    fn set_instance(&mut self, step: ResumePoint) {
        if let Some(instance) = step.instance() {
            self.state.set(self.program.standard.instance_type, instance.into());
        }
    }
}

impl Pass {
    fn begin(&mut self, step: ResumePoint, origin: u16, frame: &[u8]) {
        (self.step, self.origin) = (step, origin);
        self.frame.extend_from_slice(frame);
    }

    /// Saves the number that the packet has in the packet log.
    fn number(&mut self, state: &MachineState) {
        if let Some(journal) = &state.journal {
            self.packet = journal.packet();
        }
    }
}

impl ResumePoint {
    /// Returns the reason for a pass that begins with this step.
    fn cause(self) -> Cause {
        match self {
            Self::Resubmitted => Cause::Resubmitted,
            Self::Recirculated => Cause::Recirculated,
            Self::IngressClone { .. } => Cause::IngressClone,
            Self::EgressClone { .. } => Cause::EgressClone,
            Self::Forward { .. } => Cause::AfterClones,
        }
    }
}

/// Writes the frame as it would leave without a length limit.
///
/// Clones and recirculated packets are whole, as on BMv2.
fn emit(program: &Program, state: &MachineState, packet: &Packet<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.resize(program.header_bytes + packet.payload().len(), 0);
    let length = state.deparse(program, packet, out);
    out.truncate(length);
}
