//! A program with all its state: tables, counters, registers and multicast groups.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use tributary_link::Frames;

use crate::digests::Digests;
use crate::exec::{Packet, State};
use crate::packet_log::Journal;
use crate::passes::Passes;
use crate::path::{Path, Saved};
use crate::pipeline::Pipeline;
use crate::pre::Replication;
use crate::program::DROP_PORT;

/// Passes of waiting packets that the switch runs before it polls for other frames.
const PASSES_AT_ONCE: usize = 64;

/// A switch without ports: it processes frames, and the control plane reads and changes it (see
/// [`control`](crate::control)).
#[derive(Debug)]
pub struct Switch {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) state: State,
    pub(crate) replication: Replication,
    saved: Saved,
    passes: Passes,
    pub(crate) digests: Digests,
    /// Time of the next scan for entries that have timed out.
    pub(crate) next_scan: Option<Instant>,
}

/// Frames that leave a switch, each with its port. When reused, it allocates no new memory.
#[derive(Debug, Default)]
pub struct Outputs {
    frames: Frames,
    /// The port of each frame.
    ports: Vec<u16>,
    /// The port by which the packet came in that each frame comes from.
    origins: Vec<u16>,
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
        self.origins.clear();
    }

    /// Ports and frames in the order in which they left.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.ports.iter().copied().zip(self.frames.iter())
    }

    /// The same, and the port at which each frame's packet came in, in front.
    pub(crate) fn with_origins(&self) -> impl Iterator<Item = (u16, u16, &[u8])> {
        self.origins.iter().zip(self.iter()).map(|(origin, (port, frame))| (*origin, port, frame))
    }

    /// The frame that left as the `at`-th one, from 0.
    pub(crate) fn frame(&self, at: usize) -> &[u8] {
        self.frames.get(at).unwrap_or_default()
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if no frames are present.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The total length of all frames in bytes.
    pub(crate) fn byte_len(&self) -> usize {
        self.frames.byte_len()
    }

    /// Adds the frame that `write` writes to the beginning of a buffer of `room` bytes; `write`
    /// returns the frame's length.
    pub(crate) fn add(
        &mut self,
        port: u16,
        origin: u16,
        room: usize,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let Ok(()) = self.frames.try_add(room, |place| Ok::<_, Infallible>(write(place)));
        self.ports.push(port);
        self.origins.push(origin);
    }
}

impl Switch {
    /// A switch that runs `pipeline`, its tables filled with the program's entries, the rest empty.
    pub fn new(pipeline: Arc<Pipeline>) -> Self {
        let mut state = State::new(&pipeline.program);
        state.journal = pipeline.log.clone().map(|log| Box::new(Journal::new(log)));
        let digests = Digests::new(pipeline.program.digests.len());
        Self {
            pipeline,
            state,
            replication: Replication::default(),
            saved: Saved::default(),
            passes: Passes::default(),
            digests,
            next_scan: None,
        }
    }

    /// The program it runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Processes a frame that comes in at `port` (up to 510; frames of other ports are ignored), and adds
    /// the frames that leave to `outputs`. Once `outputs` has held the frames of a few packets, nothing is allocated.
    ///
    /// A packet may ask for further passes: clones, and to begin ingress again. Those that are still
    /// [waiting](Switch::is_waiting) after some of them go on with [`Switch::go_on`], or with the next frames.
    pub fn process(&mut self, port: u16, frame: &[u8], outputs: &mut Outputs) {
        if u64::from(port) >= DROP_PORT {
            return;
        }
        if self.state.journal.is_none() {
            self.begin::<false>(port, frame, outputs);
        } else {
            self.process_logged(port, frame, outputs);
        }
        if !self.passes.is_empty() {
            self.go_on(outputs);
        }
    }

    #[inline(always)]
    fn begin<const LOGGED: bool>(&mut self, port: u16, frame: &[u8], outputs: &mut Outputs) {
        let standard = &self.pipeline.program.standard;
        let state = &mut self.state;
        let mut packet = Packet::new(frame);
        state.reset(&self.pipeline.program);
        state.set(standard.ingress_port, port.into());
        state.set(standard.packet_length, frame.len() as u64);
        self.path::<LOGGED>(port, outputs).ingress(&mut packet);
    }

    #[cold]
    fn process_logged(&mut self, port: u16, frame: &[u8], outputs: &mut Outputs) {
        self.state.tell(|journal, _| journal.receive(port, frame.len()));
        self.begin::<true>(port, frame, outputs);
        self.state.tell(|journal, _| journal.end());
    }

    /// Returns true if packets wait for another pass.
    pub fn is_waiting(&self) -> bool {
        !self.passes.is_empty()
    }

    /// Processes some of the packets that wait for another pass.
    /// A packet that requests another pass each time never ends. So the passes at once (here) and the waiting packets
    /// have limits.
    pub fn go_on(&mut self, outputs: &mut Outputs) {
        for _ in 0..PASSES_AT_ONCE {
            let Some(pass) = self.passes.take() else { break };
            if self.state.journal.is_none() {
                self.path::<false>(pass.origin, outputs).go_on(&pass);
            } else {
                self.path::<true>(pass.origin, outputs).go_on(&pass);
            }
            self.passes.give_back(pass);
        }
    }

    #[inline(always)]
    fn path<'a, const LOGGED: bool>(&'a mut self, origin: u16, outputs: &'a mut Outputs) -> Path<'a, LOGGED> {
        Path {
            program: &self.pipeline.program,
            state: &mut self.state,
            replication: &self.replication,
            saved: &mut self.saved,
            passes: &mut self.passes,
            digests: &mut self.digests,
            outputs,
            origin,
        }
    }
}
