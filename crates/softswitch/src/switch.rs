//! A program with all its state: tables, counters, registers and multicast groups.

use std::sync::Arc;
use std::time::Instant;

use crate::digests::Digests;
use crate::exec::{MachineState, Packet};
use crate::outputs::Outputs;
use crate::packet_log::Journal;
use crate::passes::Passes;
use crate::path::{Path, SavedPacket};
use crate::pipeline::Pipeline;
use crate::pre::Replication;
use crate::program::DROP_PORT;

/// Passes of waiting packets that the switch runs before it polls for other frames.
const PASSES_AT_ONCE: usize = 64;

/// A switch without ports. It processes frames, and the control plane accesses it (see
/// [`control`](crate::control)).
#[derive(Debug)]
pub struct Switch {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) state: MachineState,
    pub(crate) replication: Replication,
    saved: SavedPacket,
    passes: Passes,
    pub(crate) digests: Digests,
    /// Time of the next scan for entries that have timed out.
    pub(crate) next_scan: Option<Instant>,
}

impl Switch {
    /// Creates a switch that runs `pipeline`. Its tables have the program's entries, and all other
    /// state is empty.
    pub fn new(pipeline: Arc<Pipeline>) -> Self {
        let mut state = MachineState::new(&pipeline.program);
        state.journal = pipeline.log.clone().map(|log| Box::new(Journal::new(log)));
        let digests = Digests::new(pipeline.program.digests.len());
        Self {
            pipeline,
            state,
            replication: Replication::default(),
            saved: SavedPacket::default(),
            passes: Passes::default(),
            digests,
            next_scan: None,
        }
    }

    /// Returns the program that the switch runs.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    /// Processes a frame that comes in at `port`, and adds the frames that leave to `outputs`.
    ///
    /// A frame of a port above 510 is ignored. Once `outputs` has held the frames of a few packets,
    /// nothing is allocated.
    ///
    /// A packet may request further passes, for clones or to begin ingress again. This call runs
    /// some of them. Packets that are still [waiting](Switch::is_waiting) continue with
    /// [`Switch::go_on`], or with the next frames.
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
    /// A packet that requests another pass each time never ends. So the number of passes in this
    /// call and the number of waiting packets have limits.
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
