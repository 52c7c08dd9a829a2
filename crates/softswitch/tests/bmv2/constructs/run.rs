//! Sends the same packets through both switches, one burst after the other.

use std::collections::BTreeMap;

use tributary_softswitch::{Outputs, Switch};

use super::controller::Controller;
use super::program::Program;
use crate::packet_stream::PacketStream;

/// The port to the controller in the test programs, which is also that of the project's program.
pub(crate) const CPU_PORT: u16 = 510;

/// A port, and a frame that came in or left by it.
pub(crate) type Frame = (u16, Vec<u8>);
/// The frames that left for one packet, by port. The frames of each port are in order.
pub(crate) type Left = BTreeMap<u16, Vec<Vec<u8>>>;

/// Returns the frames that the embedded switch sends for each packet.
pub(crate) fn embedded(switch: &mut Switch, packets: &[Frame]) -> Vec<Left> {
    let mut outputs = Outputs::new();
    let mut one = |(port, frame): &Frame| {
        outputs.clear();
        switch.process(*port, frame, &mut outputs);
        while switch.is_waiting() {
            switch.go_on(&mut outputs);
        }
        let mut left = Left::new();
        outputs.iter().for_each(|(port, frame)| left.entry(port).or_default().push(frame.to_vec()));
        left
    };
    packets.iter().map(&mut one).collect()
}

/// Takes the frames to the controller out of the frames that have left.
pub(crate) fn to_controller(left: &mut [Left]) -> Vec<Vec<Vec<u8>>> {
    left.iter_mut().map(|left| left.remove(&CPU_PORT).unwrap_or_default()).collect()
}

/// BMv2, and its stream of packets.
pub(crate) struct Bmv2<'a> {
    pub(crate) program: &'a Program,
    pub(crate) stream: PacketStream,
    pub(crate) controller: &'a mut Controller,
    /// The maximum number of packets in flight.
    pub(crate) burst: usize,
}

impl Bmv2<'_> {
    /// Returns the frames that BMv2 sends for each packet, and its packets to the controller.
    /// BMv2 does not report that it is done with a packet, so this waits for the expected number of
    /// frames. A frame that comes too late for its burst is still added to its packet. If fewer
    /// frames leave, the rest of the packets is left out.
    pub(crate) async fn process(
        &mut self,
        packets: &[Frame],
        expected: &[Left],
        to_controller: &[Vec<Vec<u8>>],
    ) -> (Vec<Left>, Vec<Vec<u8>>) {
        let mut left = vec![Left::new(); packets.len()];
        let mut told = Vec::new();
        let mut open = 0;
        for first in (0..packets.len()).step_by(self.burst) {
            let these = first..packets.len().min(first + self.burst);
            for (id, (port, frame)) in these.clone().zip(&packets[these.clone()]) {
                // The id 0 is not allowed.
                self.stream.send(id as u64 + 1, *port, frame).await;
            }
            let frames = expected[these.clone()].iter().flat_map(Left::values).map(Vec::len);
            open += frames.sum::<usize>();
            while open > 0 {
                let Some(packet) = self.stream.next().await else { return (left, told) };
                left[packet.id as usize - 1].entry(packet.port as u16).or_default().push(packet.packet);
                open -= 1;
            }
            for _ in to_controller[these].iter().flatten() {
                let Some(packet) = self.controller.packet_in(self.program).await else { return (left, told) };
                told.push(packet);
            }
        }
        (left, told)
    }
}
