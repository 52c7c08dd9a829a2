//! A simulated network that loses, duplicates and reorders packets, with switches that aggregate.
//! It is a simple second implementation of the slots of `docs/specification.md` (section 5), with which tests drive
//! `Worker` and `Server`.

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::{Rng, RngExt};
use tributary_protocol::{Recipient, Time, Worker};
use tributary_wire::{Header, Hop, JobId, NodeId, Operator, Rank, Seq, SliceWidth, Tag, Totals, ValuesView};

pub(crate) type Values = Rc<[i32]>;

/// Passes `values` to `read` as a view, like a received packet.
pub(crate) fn with_view<T>(values: &[i32], read: impl FnOnce(ValuesView<'_>) -> T) -> T {
    read(ValuesView::new(&tributary_wire::values::to_bytes(values)))
}

/// A packet on some link.
#[derive(Clone)]
pub(crate) enum Packet {
    /// On its way to the first node of `stack`.
    Up { header: Header, stack: Vec<Hop>, values: Option<Values> },
    /// On its way to the last node of `path` (switches from the worker's on), or to the worker.
    /// `values` is `None` in an acknowledgement.
    Down { header: Header, worker: Rank, path: Vec<usize>, values: Option<Values> },
}

#[derive(Clone)]
struct Slot {
    job: u16,
    cur: Seq,
    bitmap: u64,
    totals: Totals,
    values: Values,
}

/// Fault that a broken switch adds to the sums that it makes.
pub(crate) type Fault = fn(Operator, &mut [i32], &mut Totals);

/// A switch: its parent, and whether it aggregates.
pub(crate) struct Switch {
    pub(crate) parent: Option<usize>,
    pub(crate) aggregates: bool,
    pub(crate) fault: Option<Fault>,
    slots: BTreeMap<u32, Slot>,
}

/// The switches, and each worker's path through them.
pub(crate) struct Fabric {
    pub(crate) switches: Vec<Switch>,
    pub(crate) window: u32,
    /// For each rank, the switch that it is linked to.
    pub(crate) homes: Vec<usize>,
    /// For each member, its hop stack, with the server's entry last.
    pub(crate) stacks: BTreeMap<Rank, Vec<Hop>>,
    /// The server, which is linked to the first switch.
    pub(crate) server: NodeId,
    pub(crate) server_fan_in: u8,
}

/// The node id of the first server. Servers that take over from it have the next numbers.
const FIRST_SERVER: u16 = 1000;

impl Fabric {
    /// Makes a fabric. `parents` and `aggregates` are by switch, with parents first; `homes` is by rank.
    pub(crate) fn new(
        parents: &[Option<usize>],
        aggregates: &[bool],
        homes: Vec<usize>,
        window: u32,
    ) -> Self {
        let switches = parents.iter().zip(aggregates).map(|(&parent, &aggregates)| Switch {
            parent,
            aggregates,
            fault: None,
            slots: BTreeMap::new(),
        });
        let switches = switches.collect();
        let server = NodeId::new(FIRST_SERVER).unwrap();
        Self { switches, window, homes, stacks: BTreeMap::new(), server, server_fan_in: 0 }
    }

    /// Fills slots with arbitrary data that an earlier job may have left there.
    pub(crate) fn litter(&mut self, rng: &mut impl Rng, start: Seq) {
        for switch in &mut self.switches {
            for index in 0..self.window {
                if rng.random_bool(0.5) {
                    let tag = Tag { high: rng.random(), low: rng.random() };
                    let totals = Totals { contributors: 1, weight: 1, tag };
                    let cur = start.plus(rng.random_range(0..40));
                    let (bitmap, values) =
                        (rng.random_range(0..4), Rc::new([999; SliceWidth::ETHERNET.values()]));
                    switch.slots.insert(index, Slot { job: 999, cur, bitmap, totals, values });
                }
            }
        }
    }

    /// Plans the members' hop stacks.
    /// The numbers of children and the fan-ins follow from the flows that arrive.
    pub(crate) fn plan(&mut self, members: &[Rank]) {
        let mut flows: Vec<Vec<Vec<Rank>>> = vec![Vec::new(); self.switches.len()];
        let mut server: Vec<Vec<Rank>> = Vec::new();
        for &rank in members {
            flows[self.homes[usize::from(rank.get())]].push(vec![rank]);
        }
        self.stacks = members.iter().map(|&rank| (rank, Vec::new())).collect();
        for at in (0..self.switches.len()).rev() {
            let arriving = std::mem::take(&mut flows[at]);
            let aggregate = self.switches[at].aggregates;
            self.push_entries(NodeId::new(at as u16 + 1).unwrap(), aggregate, &arriving);
            let leaving = if aggregate { vec![arriving.concat()] } else { arriving };
            let leaving = leaving.into_iter().filter(|ranks| !ranks.is_empty());
            self.switches[at].parent.map_or(&mut server, |parent| &mut flows[parent]).extend(leaving);
        }
        self.push_entries(self.server, true, &server);
        self.server_fan_in = server.len() as u8;
    }

    fn push_entries(&mut self, node: NodeId, aggregate: bool, arriving: &[Vec<Rank>]) {
        let fan_in = arriving.len() as u8;
        for (child, ranks) in arriving.iter().enumerate() {
            for rank in ranks {
                let entry = Hop { node, egress_port: 0, aggregate, child: child as u8, fan_in };
                self.stacks.get_mut(rank).unwrap().push(entry);
            }
        }
    }

    /// Moves the job's server to another node.
    pub(crate) fn move_server(&mut self) {
        self.server = NodeId::new(self.server.get() + 1).unwrap();
    }

    pub(crate) fn reboot(&mut self, rng: &mut impl Rng) {
        let at = rng.random_range(0..self.switches.len());
        self.switches[at].slots.clear();
    }

    /// Returns the packets that a RESULT becomes when it leaves the server:
    /// one for each worker, even with multicast.
    /// That is the harder case, because copies are lost one by one, and releases are conditional.
    pub(crate) fn downwards(&self, header: Header, to: Recipient, values: Option<&Values>) -> Vec<Packet> {
        let ranks: Vec<Rank> = match to {
            Recipient::Rank(rank) => vec![rank],
            Recipient::All => self.stacks.keys().copied().collect(),
        };
        let path = |rank: Rank| {
            std::iter::successors(Some(self.homes[usize::from(rank.get())]), |&at| self.switches[at].parent)
                .collect()
        };
        let packet = |rank| Packet::Down { header, worker: rank, path: path(rank), values: values.cloned() };
        ranks.into_iter().map(packet).collect()
    }

    /// Moves a packet through one switch; `None` if the switch consumes it.
    pub(crate) fn forward(&mut self, packet: Packet) -> Option<Packet> {
        match packet {
            Packet::Down { header, worker, mut path, values } => {
                let switch = &mut self.switches[path.pop()?];
                let index = header.seq.0 % self.window;
                if let Some(slot) = switch.slots.get_mut(&index)
                    && (slot.job, slot.cur) == (header.job.get(), header.seq)
                {
                    (slot.cur, slot.bitmap) = (header.seq.plus(self.window), 0);
                }
                Some(Packet::Down { header, worker, path, values })
            }
            Packet::Up { header, mut stack, values } => {
                let hop = stack.remove(0);
                let switch = &mut self.switches[usize::from(hop.node.get()) - 1];
                match values {
                    // To a switch, this is a PROBE.
                    Some(mut values) if header.operator == Operator::Relay => {
                        let mut totals = header.totals;
                        if let Some(fault) = switch.fault {
                            fault(header.operator, Rc::make_mut(&mut values), &mut totals);
                        }
                        Some(Packet::Up { header: Header { totals, ..header }, stack, values: Some(values) })
                    }
                    Some(values) if hop.aggregate => aggregate(switch, self.window, header, hop, &values)
                        .map(|(header, values)| Packet::Up { header, stack, values }),
                    values => Some(Packet::Up { header, stack, values }),
                }
            }
        }
    }
}

/// Implements the table of `docs/specification.md`, section 5.2.
fn aggregate(
    switch: &mut Switch,
    window: u32,
    header: Header,
    hop: Hop,
    values: &Values,
) -> Option<(Header, Option<Values>)> {
    let bit = 1u64 << hop.child;
    let fresh = Slot {
        job: header.job.get(),
        cur: header.seq,
        bitmap: bit,
        totals: header.totals,
        values: values.clone(),
    };
    let slot = switch.slots.entry(header.seq.0 % window).or_insert_with(|| fresh.clone());
    let ours = slot.job == header.job.get();
    if ours && slot.cur.is_newer_than(header.seq) {
        return Some((header, None));
    }
    if !ours || header.seq.is_newer_than(slot.cur) || slot.bitmap == 0 {
        *slot = fresh;
    } else if slot.bitmap & bit == 0 {
        slot.bitmap |= bit;
        let sum = Rc::make_mut(&mut slot.values);
        for (sum, &value) in sum.iter_mut().zip(values.iter()) {
            *sum = match header.operator {
                Operator::Sum => sum.wrapping_add(value),
                Operator::Max => (*sum & i32::MAX).max(value & i32::MAX),
                Operator::Relay => unreachable!("switches forward these"),
            };
        }
        slot.totals.add(header.totals);
        if let Some(fault) = switch.fault {
            fault(header.operator, sum, &mut slot.totals);
        }
    }
    if slot.bitmap.count_ones() == u32::from(hop.fan_in) {
        return Some((Header { totals: slot.totals, ..header }, Some(slot.values.clone())));
    }
    header.retransmit.then_some((header, None))
}

/// Collects the packets that a worker sends.
pub(crate) fn collect(worker: &mut Worker, now: Time, stack: &[Hop], into: &mut Vec<Packet>) {
    while let Some(out) = worker.poll_transmit(now) {
        let values = out.values.map(Rc::from);
        into.push(Packet::Up { header: out.header, stack: stack.to_vec(), values });
    }
}

pub(crate) fn job(id: u16) -> JobId {
    JobId::new(id).unwrap()
}
