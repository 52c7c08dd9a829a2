//! The state of the thread, and a round of its work.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::Sender;
use tributary_link::BATCH;

use super::ports::Ports;
use crate::control::Notification;
use crate::outputs::Outputs;
use crate::switch::Switch;

/// The maximum number of frames of one port that are processed in a round.
const FRAMES_A_ROUND: usize = 64;
/// The number of bytes at which frames are sent, even if no port has a full [batch](BATCH).
/// The kernel finds this number of bytes in the processor's cache, and two ports' longest joined frames
/// fit into it. With a megabyte, an all-reduce over 1 Gbit/s took 3 % longer.
const BYTES_AT_ONCE: usize = 100 << 10;

/// The state of the thread, on which requests work.
#[derive(Debug)]
pub(super) struct EngineState {
    pub(super) switch: Option<Switch>,
    pub(super) outputs: Outputs,
    pub(super) ports: Ports,
    /// The number of failed ports at the last notification of the switch.
    pub(super) known_failures: usize,
    pub(super) notifications: Sender<Notification>,
    pub(super) stopping: bool,
}

impl EngineState {
    /// Processes a few frames of each port and sends the results. Returns true if there was any
    /// work.
    pub(super) fn round(&mut self) -> bool {
        let mut any = false;
        for port in 0..self.ports.count() {
            for taken in 1..=FRAMES_A_ROUND {
                let Some((number, frame)) = self.ports.receive(port) else { break };
                if let Some(switch) = &mut self.switch {
                    switch.process(number, frame, &mut self.outputs);
                }
                // Consecutive frames should be sent together, so frames are sent only at the end of
                // a batch.
                if taken.is_multiple_of(BATCH) || self.outputs.byte_len() >= BYTES_AT_ONCE {
                    self.send_off();
                }
                any = true;
            }
            self.send_off();
        }
        if self.ports.failures() != self.known_failures {
            self.tell_ports();
        }
        any | self.go_on()
    }

    /// Notifies the switch of the state of each port.
    pub(super) fn tell_ports(&mut self) {
        self.known_failures = self.ports.failures();
        if let Some(switch) = &mut self.switch {
            self.ports.states().for_each(|(port, up)| switch.set_port(port, up));
        }
    }

    /// Continues with packets that wait for another pass; ports have their turn in between. Returns
    /// true if any packet was waiting.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(switch) = self.switch.as_mut().filter(|switch| switch.is_waiting()) else { return false };
        switch.go_on(&mut self.outputs);
        self.send_off();
        true
    }

    /// Sends the notifications that are due.
    /// Returns the time until the next notification may be due; `None` if none is scheduled.
    pub(super) fn tell(&mut self) -> Option<Duration> {
        let switch = self.switch.as_mut()?;
        let due = switch.next_notification()?;
        let now = Instant::now();
        if due <= now {
            for notification in switch.notifications(now) {
                if self.notifications.try_send(notification).is_err() {
                    tracing::debug!("a notification to the controller is dropped: nobody takes it");
                }
            }
        }
        Some(switch.next_notification()?.saturating_duration_since(now))
    }

    /// Processes a frame from the controller as if `port` had received it.
    pub(super) fn inject(&mut self, port: u16, frame: &[u8]) {
        if let Some(switch) = &mut self.switch {
            switch.process(port, frame, &mut self.outputs);
            self.send_off();
        }
    }

    /// Sends the frames that the switch has produced.
    pub(super) fn send_off(&mut self) {
        self.ports.send_all(&self.outputs);
        self.outputs.clear();
    }
}
