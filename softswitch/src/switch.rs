//! A program with all its state: tables, counters, registers and multicast groups.

use std::convert::Infallible;
use std::sync::Arc;

use tributary_link::Frames;

use crate::control::Replica;
use crate::exec::{Packet, State};
use crate::pipeline::Pipeline;
use crate::pre::Replication;
use crate::program::{DROP_PORT, INSTANCE_REPLICATION, Line, Program};

/// A switch without ports: it processes frames, and the control plane reads and changes it (see
/// [`control`](crate::control)).
#[derive(Debug)]
pub struct Switch {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) state: State,
    pub(crate) replication: Replication,
    /// The state of a packet between ingress and egress when several copies are made.
    saved: Saved,
}

#[derive(Debug, Default)]
struct Saved {
    words: Vec<u64>,
    lines: Vec<Line>,
}

/// Frames that leave a switch, each with its port. When reused, it allocates no new memory.
#[derive(Debug, Default)]
pub struct Outputs {
    frames: Frames,
    /// The port of each frame.
    ports: Vec<u16>,
}

impl Outputs {
    /// An empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all frames.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.ports.clear();
    }

    /// Ports and frames in the order in which they left.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.ports.iter().copied().zip(self.frames.iter())
    }

    /// How many frames there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The total length of all frames in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.frames.byte_len()
    }

    /// Adds the frame that `write` writes to the beginning of a buffer of `room` bytes; `write` returns the frame's
    /// length.
    fn add(&mut self, port: u16, room: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let Ok(()) = self.frames.try_add(room, |place| Ok::<_, Infallible>(write(place)));
        self.ports.push(port);
    }
}

impl Switch {
    /// A switch that runs `pipeline`, its tables filled as the program says, the rest empty.
    pub fn new(pipeline: Arc<Pipeline>) -> Self {
        let state = State::new(&pipeline.program);
        Self { pipeline, state, replication: Replication::default(), saved: Saved::default() }
    }

    /// The program it runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Processes a frame that comes in at `port` (up to 510; frames of other ports are ignored), and adds the frames
    /// that leave to `outputs`. Once `outputs` has held the frames of a few packets, nothing is allocated.
    pub fn process(&mut self, port: u16, frame: &[u8], outputs: &mut Outputs) {
        if u64::from(port) >= DROP_PORT {
            return;
        }
        let program = &self.pipeline.program;
        let standard = &program.standard;
        let state = &mut self.state;
        let mut packet = Packet::new(frame);
        state.reset(program);
        state.set(standard.ingress_port, port.into());
        state.set(standard.packet_length, frame.len() as u64);
        for entry in [program.entries.parser, program.entries.verify, program.entries.ingress] {
            state.run(program, &mut packet, entry);
        }
        let group = state.get(standard.mcast_grp);
        let port = state.get(standard.egress_spec);
        if group != 0 {
            self.saved.multicast(program, state, &packet, self.replication.replicas(group), outputs);
        } else if port != DROP_PORT {
            leave(program, state, &mut packet, port, outputs);
        }
    }
}

/// Runs egress and the deparser.
fn leave(program: &Program, state: &mut State, packet: &mut Packet<'_>, port: u64, outputs: &mut Outputs) {
    let standard = &program.standard;
    state.set(standard.egress_port, port);
    state.set(standard.egress_spec, 0);
    state.set(standard.packet_length, packet.frame.len() as u64);
    state.run(program, packet, program.entries.egress);
    if state.get(standard.egress_spec) == DROP_PORT {
        return;
    }
    state.run(program, packet, program.entries.update);
    let room = program.header_bytes + packet.payload().len();
    outputs.add(port as u16, room, |bytes| state.deparse(program, packet, bytes));
}

impl Saved {
    /// Sends a copy of the packet to each replica.
    fn multicast(
        &mut self,
        program: &Program,
        state: &mut State,
        packet: &Packet<'_>,
        replicas: &[Replica],
        outputs: &mut Outputs,
    ) {
        let lines = if program.egress_changes_lines { program.field_lines } else { 0 };
        if replicas.len() > 1 {
            self.words.clear();
            self.words.extend_from_slice(&state.words[..program.field_words]);
            self.lines.clear();
            self.lines.extend_from_slice(&state.lines[..lines]);
        }
        for (index, replica) in replicas.iter().enumerate() {
            if index > 0 {
                state.words[..program.field_words].copy_from_slice(&self.words);
                state.lines[..lines].copy_from_slice(&self.lines);
            }
            state.set(program.standard.egress_rid, replica.instance.into());
            state.set(program.standard.instance_type, INSTANCE_REPLICATION);
            leave(program, state, &mut packet.clone(), replica.port.into(), outputs);
        }
    }
}
