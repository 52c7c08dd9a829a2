//! A switch's slots, by the table of section 5.2 of `docs/specification.md`.
//!
//! This is a model of the program in `p4/`.

use tributary_wire::{Hop, JobId, Operator, Seq, SliceWidth, Totals};

use crate::packet::{Packet, Values, encode, view};

#[derive(Debug, Clone)]
struct Slot {
    job: Option<JobId>,
    cur: Seq,
    bitmap: u64,
    totals: Totals,
    values: Box<[i32]>,
}

/// The slots of the simulated job on one switch.
#[derive(Debug)]
pub(crate) struct Switch {
    width: SliceWidth,
    slots: Vec<Slot>,
}

impl Switch {
    pub(crate) fn new(width: SliceWidth, window: u32) -> Self {
        let empty = Slot {
            job: None,
            cur: Seq(0),
            bitmap: 0,
            totals: Totals::default(),
            values: vec![0; width.values()].into(),
        };
        Self { width, slots: vec![empty; window as usize] }
    }

    fn slot(&mut self, seq: Seq) -> Option<&mut Slot> {
        let index = seq.0 as usize & (self.slots.len() - 1);
        self.slots.get_mut(index)
    }

    /// Clears the switch's memory.
    pub(crate) fn reboot(&mut self) {
        *self = Self::new(self.width, self.slots.len() as u32);
    }

    /// Handles a GRADIENT. Returns the packet that continues towards the server, if any.
    pub(crate) fn gradient(&mut self, mut packet: Packet) -> Option<Packet> {
        let hop = packet.hop()?;
        packet.hops -= 1;
        // To a switch, this is a PROBE.
        if packet.header.operator == Operator::Relay {
            return Some(packet);
        }
        let Some(values) = packet.values.take() else { return Some(packet) };
        let header = packet.header;
        let slot = self.slot(header.seq)?;
        let ours = slot.job == Some(header.job);
        if ours && slot.cur.is_newer_than(header.seq) {
            return Some(packet);
        }
        if !ours || header.seq.is_newer_than(slot.cur) || slot.bitmap == 0 {
            slot.take_over(&packet, hop, &values);
        } else if slot.bitmap & (1 << hop.child) == 0 {
            slot.add(&packet, hop, &values);
        }
        if slot.bitmap.count_ones() == u32::from(hop.fan_in) {
            packet.header.totals = slot.totals;
            packet.values = Some(encode(&slot.values));
            return Some(packet);
        }
        header.retransmit.then_some(packet)
    }

    /// Handles a RESULT, which releases the slot.
    pub(crate) fn release(&mut self, packet: &Packet) {
        let (header, window) = (packet.header, self.slots.len() as u32);
        if let Some(slot) = self.slot(header.seq)
            && (slot.job, slot.cur) == (Some(header.job), header.seq)
        {
            slot.cur = header.seq.plus(window);
            slot.bitmap = 0;
        }
    }
}

impl Slot {
    fn take_over(&mut self, packet: &Packet, hop: Hop, values: &Values) {
        let header = packet.header;
        (self.job, self.cur, self.bitmap, self.totals) =
            (Some(header.job), header.seq, 1 << hop.child, header.totals);
        for (to, value) in self.values.iter_mut().zip(view(values).iter()) {
            *to = value;
        }
    }

    fn add(&mut self, packet: &Packet, hop: Hop, values: &Values) {
        self.bitmap |= 1 << hop.child;
        self.totals.add(packet.header.totals);
        let pairs = self.values.iter_mut().zip(view(values).iter());
        match packet.header.operator {
            Operator::Sum => pairs.for_each(|(sum, value)| *sum = sum.wrapping_add(value)),
            Operator::Relay => {}
            Operator::Max => pairs.for_each(|(most, value)| *most = (*most & i32::MAX).max(value & i32::MAX)),
        }
    }
}
