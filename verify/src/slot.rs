//! A switch's slot: the table of DESIGN.md section 3, whatever it is that is added up.

/// What the model does wrong on purpose, to show that the check would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Bug {
    /// A retransmission that a switch consumes does not go on as a PROBE.
    NoProbe,
    /// Workers send slice k without the result of slice k − S.
    LooseWindow,
    /// Slots know only one bit of the sequence number: which half.
    OneBit,
    /// A child's second copy is added, too.
    AddsDuplicates,
    /// A RESULT empties whatever the slot holds.
    BlindRelease,
    /// Slots do not know whose they are.
    NoJob,
    /// A new generation gets the old one's slots while that is still at work.
    SharedSlots,
}

impl Bug {
    /// All of them.
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

/// One slot. `C` is what is added up: values and what is aggregated beside them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot<C> {
    /// Whose slice it holds; 0 is no job.
    pub job: u16,
    /// Which slice.
    pub cur: u32,
    /// Children seen.
    pub bitmap: u64,
    /// How many.
    pub count: u8,
    /// Their sum, while there are any.
    pub sum: Option<C>,
}

impl<C> Default for Slot<C> {
    fn default() -> Self {
        Self { job: 0, cur: 0, bitmap: 0, count: 0, sum: None }
    }
}

/// What a slot is asked to add.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<C> {
    /// The packet's job.
    pub job: u16,
    /// Its slice.
    pub seq: u32,
    /// Which child it is from.
    pub child: u8,
    /// How many children the slice comes from.
    pub fan_in: u8,
    /// Its flag.
    pub retransmit: bool,
    /// What it carries.
    pub content: C,
}

/// What becomes of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Onwards<C> {
    /// It goes on with the slice's sum.
    Sum(C),
    /// It goes on without values.
    Probe,
    /// It is consumed.
    Nothing,
}

impl<C: Clone> Slot<C> {
    /// A GRADIENT whose hop entry says aggregate; `window` matters to one [`Bug`] only.
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

    /// A RESULT whose hop entry, or table, says release.
    pub fn result(&mut self, job: u16, seq: u32, window: u32, bug: Option<Bug>) {
        if (self.job == job && self.cur == seq) || bug == Some(Bug::BlindRelease) {
            *self = Self { job, cur: seq.wrapping_add(window), ..Self::default() };
        }
    }
}
