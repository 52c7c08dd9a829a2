//! Packets of many flows that a switch forwards, each with the expected output.

use std::ops::Range;

use tributary_wire::Seq;

use super::{Arrived, GeneratorError, Load};

/// The offset of a packet's number, after the headers of Ethernet, IPv4 and UDP.
const SEQ_AT: usize = 14 + 20 + 8;
/// The bytes after the number, which distinguish the generator's packets from foreign frames.
const MARK: [u8; 4] = *b"TRIB";
const MARK_AT: usize = SEQ_AT + size_of::<u32>();
/// Spreads consecutive numbers over the flows: 2^32 divided by the golden ratio.
const SPREAD: u32 = 0x9e37_79b1;

/// A flow, whose packets differ only in their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFlow {
    /// The index of the host that sends the flow, less than [`SENDERS`](super::SENDERS).
    pub sender: usize,
    /// The frame that the generator sends.
    pub sent: Vec<u8>,
    /// The expected output frame, of the same length.
    pub expected: Vec<u8>,
}

impl PacketFlow {
    /// The shortest frame that has room for the number.
    pub const MIN_BYTES: usize = MARK_AT + MARK.len();
}

/// Packets of several flows, in an order that is the same in every run.
#[derive(Debug)]
pub struct Packets {
    window: u32,
    flows: Vec<PacketFlow>,
}

impl Packets {
    /// Creates a load of packets of these flows, with `window` packets in flight: a power of two.
    ///
    /// # Errors
    /// [`GeneratorError::NoFlow`] if `flows` is empty, or if its frames have no room for the packet's number.
    pub fn new(window: u32, mut flows: Vec<PacketFlow>) -> Result<Self, GeneratorError> {
        let frames = |flow: &mut PacketFlow| {
            [&mut flow.sent, &mut flow.expected].into_iter().all(|frame| {
                let mark = frame.get_mut(MARK_AT..PacketFlow::MIN_BYTES);
                mark.map(|mark| mark.copy_from_slice(&MARK)).is_some()
            })
        };
        if flows.is_empty() || !flows.iter_mut().all(frames) {
            return Err(GeneratorError::NoFlow(PacketFlow::MIN_BYTES));
        }
        Ok(Self { window, flows })
    }

    fn flow(&self, seq: Seq) -> &PacketFlow {
        let flows = self.flows.len() as u64;
        let at = (u64::from(seq.0.wrapping_mul(SPREAD)) * flows) >> u32::BITS;
        &self.flows[at as usize]
    }
}

impl Load for Packets {
    fn window(&self) -> u32 {
        self.window
    }

    fn senders(&self, seq: Seq) -> Range<usize> {
        let sender = self.flow(seq).sender;
        sender..sender + 1
    }

    fn write(
        &mut self,
        _sender: usize,
        seq: Seq,
        _again: bool,
        frame: &mut [u8],
    ) -> Result<usize, GeneratorError> {
        let sent = &self.flow(seq).sent;
        let (room, needed) = (frame.len(), sent.len());
        let frame = frame.get_mut(..needed).ok_or(GeneratorError::NoRoom { needed, room })?;
        frame.copy_from_slice(sent);
        frame[SEQ_AT..MARK_AT].copy_from_slice(&seq.0.to_be_bytes());
        Ok(needed)
    }

    fn check(&self, frame: &[u8]) -> Result<Arrived, GeneratorError> {
        let (Some(MARK), Some(number)) =
            (frame.get(MARK_AT..).and_then(|rest| rest.first_chunk().copied()), frame.get(SEQ_AT..))
        else {
            return Ok(Arrived::Other);
        };
        let Some(number) = number.first_chunk() else { return Ok(Arrived::Other) };
        let seq = Seq(u32::from_be_bytes(*number));
        let expected = &self.flow(seq).expected;
        // The number differs from frame to frame, so it is not compared.
        if frame.len() == expected.len()
            && frame[..SEQ_AT] == expected[..SEQ_AT]
            && frame[MARK_AT..] == expected[MARK_AT..]
        {
            return Ok(Arrived::Whole(seq));
        }
        let mut expected = expected.clone();
        expected[SEQ_AT..MARK_AT].copy_from_slice(number);
        Err(GeneratorError::WrongPacket { seq, expected: hex::encode(&expected), got: hex::encode(frame) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 64;

    /// Makes flows in whose expected frames byte 0 is greater by one.
    fn packets() -> Packets {
        let flow = |number: u8| {
            let mut sent = vec![number; BYTES];
            let mut expected = sent.clone();
            (sent[0], expected[0]) = (7, 8);
            PacketFlow { sender: usize::from(number) % 2, sent, expected }
        };
        Packets::new(16, (0..100).map(flow).collect()).unwrap()
    }

    fn forwarded(packets: &mut Packets, seq: Seq) -> Vec<u8> {
        let mut frame = vec![0; BYTES];
        let sender = packets.senders(seq).start;
        packets.write(sender, seq, false, &mut frame).unwrap();
        frame[0] += 1;
        frame
    }

    proptest! {
        #[test]
        fn a_packet_that_came_out_right_is_known_by_its_number(seq: u32) {
            let mut packets = packets();
            let frame = forwarded(&mut packets, Seq(seq));
            prop_assert_eq!(packets.check(&frame).unwrap(), Arrived::Whole(Seq(seq)));
        }

        #[test]
        fn any_other_byte_is_noticed(seq: u32, at in 0..SEQ_AT, by in 1u8..) {
            let mut packets = packets();
            let mut frame = forwarded(&mut packets, Seq(seq));
            frame[at] ^= by;
            let error = packets.check(&frame).unwrap_err().to_string();
            prop_assert!(error.contains(&format!("packet {seq} ")), "{}", error);
        }
    }

    #[test]
    fn neighbours_are_of_different_flows_and_all_flows_have_packets() {
        let packets = packets();
        let mut sent: Vec<_> = (0..1000).map(|seq| packets.flow(Seq(seq)).sent[20]).collect();
        assert!(sent.windows(2).all(|pair| pair[0] != pair[1]));
        sent.sort_unstable();
        sent.dedup();
        assert_eq!(sent.len(), 100);
    }

    #[test]
    fn frames_of_others_are_left_alone_and_shorter_ones_are_wrong() {
        let mut packets = packets();
        assert_eq!(packets.check(&[0; 20]).unwrap(), Arrived::Other);
        assert_eq!(packets.check(&[0; BYTES]).unwrap(), Arrived::Other);
        let frame = forwarded(&mut packets, Seq(5));
        assert!(packets.check(&frame[..BYTES - 1]).is_err());
    }

    #[test]
    fn frames_without_room_for_a_number_are_refused() {
        let short = PacketFlow { sender: 0, sent: vec![0; 40], expected: vec![0; 40] };
        let error = Packets::new(16, vec![short]).unwrap_err().to_string();
        assert!(error.contains("50 bytes"), "{error}");
        assert!(Packets::new(16, Vec::new()).is_err());
    }
}
