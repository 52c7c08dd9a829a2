//! A switch's slot, by the table of section 5.2 of `docs/specification.md`, for any type of content.

/// A deliberate bug in the model, to show that the check notices it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bug {
    /// A retransmission that a switch consumes does not continue as a PROBE.
    NoProbe,
    /// Workers send slice k without the result of slice k − S.
    LooseWindow,
    /// Slots store a single bit of the sequence number: whether seq / S is even or odd.
    OneBit,
    /// A child's second copy is also added.
    AddsDuplicates,
    /// A RESULT empties the slot whatever it holds.
    BlindRelease,
    /// Slots do not store their job.
    NoJob,
    /// A new generation gets the slots of the old generation while the old generation is still at work.
    SharedSlots,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 7] = [
        Self::NoProbe,
        Self::LooseWindow,
        Self::OneBit,
        Self::AddsDuplicates,
        Self::BlindRelease,
        Self::NoJob,
        Self::SharedSlots,
    ];
}

/// One slot. `C` is the content that is summed: values and the other aggregated fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot<C> {
    /// The job whose slice the slot holds; 0 if the slot has no job.
    pub job: u16,
    /// The sequence number of the slice.
    pub cur: u32,
    /// The children whose contributions are in the sum, with one bit for each child.
    pub bitmap: u64,
    /// The number of children whose contributions are in the sum.
    pub count: u8,
    /// The sum of the contributions; `None` without contributions.
    pub sum: Option<C>,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self { job: 0, cur: 0, bitmap: 0, count: 0, sum: None }
    }
}

/// A contribution that arrives at a slot.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<C> {
    /// The packet's data-plane job id.
    pub job: u16,
    /// The packet's sequence number.
    pub seq: u32,
    /// The number of the child that sent the packet.
    pub child: u8,
    /// The number of children that contribute to the slice.
    pub fan_in: u8,
    /// The packet's retransmit flag.
    pub retransmit: bool,
    /// The content of the packet.
    pub content: C,
}

/// The result of handling a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Onwards<C> {
    /// The packet continues with the slice's sum.
    Sum(C),
    /// The packet continues without values, as a PROBE.
    Probe,
    /// The switch consumes the packet.
    Nothing,
}

impl<C: Clone> Slot<C> {
    /// Handles a GRADIENT whose hop entry says that the switch aggregates.
    ///
    /// `window` matters for one [`Bug`] only.
    pub fn gradient(
        &mut self,
        packet: Arrival<C>,
        window: u32,
        bug: Option<Bug>,
        add: impl FnOnce(&C, &C) -> C,
    ) -> Onwards<C> {
        let ours = self.job == packet.job || (bug == Some(Bug::NoJob) && self.job != 0);
        let ahead = packet.seq.wrapping_sub(self.cur).cast_signed();
        let half = |seq: u32| seq / window % 2;
        let (newer, older) = match bug {
            Some(Bug::OneBit) => (half(packet.seq) != half(self.cur), false),
            _ => (ahead > 0, ahead < 0),
        };
        if !ours || newer {
            *self = Self { job: packet.job, cur: packet.seq, ..Self::default() };
        } else if older {
            return Onwards::Probe;
        }
        let bit = 1 << packet.child;
        if self.bitmap & bit == 0 || bug == Some(Bug::AddsDuplicates) {
            self.sum = Some(match &self.sum {
                Some(sum) => add(sum, &packet.content),
                None => packet.content,
            });
            self.bitmap |= bit;
            self.count = self.count.wrapping_add(1);
        }
        match &self.sum {
            Some(sum) if self.count == packet.fan_in => Onwards::Sum(sum.clone()),
            _ if packet.retransmit && bug != Some(Bug::NoProbe) => Onwards::Probe,
            _ => Onwards::Nothing,
        }
    }

    /// Handles a RESULT that releases the slot, by its hop entry or by the switch's table.
    pub fn result(&mut self, job: u16, seq: u32, window: u32, bug: Option<Bug>) {
        if (self.job == job && self.cur == seq) || bug == Some(Bug::BlindRelease) {
            *self = Self { job, cur: seq.wrapping_add(window), ..Self::default() };
        }
    }
}
