//! The state of the thread, and a round of its work.

use tributary_link::BATCH;

use super::ports::Ports;
use crate::switch::{Outputs, Switch};

/// Frames of one port that are processed before the next port's turn.
const FRAMES_A_ROUND: usize = 64;
/// Frames are sent off once they have so many bytes, even if there is no [batch](BATCH) yet for each port that they
/// leave by.
const BYTES_AT_ONCE: usize = 1 << 20;

/// The state of the thread, on which requests work.
#[derive(Debug)]
pub(super) struct EngineState {
    pub(super) switch: Option<Switch>,
    pub(super) outputs: Outputs,
    pub(super) ports: Ports,
    pub(super) stopping: bool,
}

impl EngineState {
    /// Takes a few frames of each port and sends off the results. Returns whether there were any frames.
    pub(super) fn round(&mut self) -> bool {
        let mut any = false;
        for port in 0..self.ports.count() {
            let mut from = None;
            for taken in 1..=FRAMES_A_ROUND {
                let Some((number, frame)) = self.ports.receive(port) else { break };
                from = Some(number);
                if let Some(switch) = &mut self.switch {
                    switch.process(number, frame, &mut self.outputs);
                }
                // No more frames leave by one port than have come in; neighbours should be sent together.
                if taken.is_multiple_of(BATCH) || self.outputs.byte_len() >= BYTES_AT_ONCE {
                    self.send_off(number);
                }
            }
            if let Some(number) = from {
                any = true;
                self.send_off(number);
            }
        }
        any
    }

    /// Processes a frame that no port has received.
    pub(super) fn inject(&mut self, port: u16, frame: &[u8]) {
        if let Some(switch) = &mut self.switch {
            switch.process(port, frame, &mut self.outputs);
            self.send_off(port);
        }
    }

    /// Sends off the results of frames that came in by `ingress`.
    pub(super) fn send_off(&mut self, ingress: u16) {
        self.ports.send_all(ingress, &self.outputs);
        self.outputs.clear();
    }
}
