//! Compares the project's program with a second implementation of section 5 of the specification.
//!
//! Random packets pass through both.

use std::collections::HashMap;

use proptest::prelude::*;
use tributary_wire::{JobId, Operator, Seq, Tag, Totals};

use crate::support::{
    Admit, BASE, GRADIENT, JOB, JOB_INDEX, RESULT, Rig, Sent, UP, VALUES, Values, received, values,
};

/// Number of children of the switch.
const FAN_IN: u8 = 3;
/// Number of slots. It is small, so that several slices use the same slot.
const WINDOW: u32 = 4;
/// Two jobs that share the slots, as if the second job received the slots of the first.
const JOBS: [u16; 2] = [JOB, JOB + 1];

/// One slot.
#[derive(Debug, Clone)]
struct Slot {
    job: u16,
    cur: u32,
    bitmap: u64,
    count: u8,
    totals: Totals,
    values: Values,
}

impl Default for Slot {
    fn default() -> Self {
        Self { job: 0, cur: 0, bitmap: 0, count: 0, totals: Totals::default(), values: [0; VALUES] }
    }
}

/// The slots of the model.
#[derive(Debug, Default)]
struct Model {
    slots: HashMap<u32, Slot>,
}

impl Model {
    /// Returns the packet that leaves when a gradient comes in.
    fn gradient(&mut self, sent: &Sent) -> Option<Sent> {
        let (hop, header) = (sent.hops[0], sent.header);
        let mut out = Sent { hops: sent.hops[1..].to_vec(), ..sent.clone() };
        let Some(mut values) = sent.values else { return Some(out) };
        let slot = self.slots.entry(header.seq.0 % WINDOW).or_default();
        let ahead = header.seq.0.wrapping_sub(slot.cur) as i32;
        if slot.job != header.job.get() || ahead > 0 {
            *slot = Slot { job: header.job.get(), cur: header.seq.0, ..Slot::default() };
        } else if ahead != 0 {
            return Some(probe(out));
        }
        let bit = 1 << hop.child;
        if slot.bitmap & bit == 0 {
            if header.operator == Operator::Max {
                values.iter_mut().for_each(|value| *value &= i32::MAX);
            }
            if slot.count == 0 {
                (slot.values, slot.totals) = (values, header.totals);
            } else {
                combine(slot, &values, header.operator, header.totals);
            }
            slot.bitmap |= bit;
            slot.count += 1;
        }
        if slot.count == hop.fan_in {
            (out.values, out.header.totals) = (Some(slot.values), slot.totals);
            return Some(out);
        }
        header.retransmit.then(|| probe(out))
    }

    fn result(&mut self, job: u16, seq: u32) {
        let slot = self.slots.entry(seq % WINDOW).or_default();
        if slot.job == job && slot.cur == seq {
            *slot = Slot { cur: seq.wrapping_add(WINDOW), job, ..Slot::default() };
        }
    }
}

fn combine(slot: &mut Slot, values: &Values, operator: Operator, totals: Totals) {
    for (held, value) in slot.values.iter_mut().zip(values) {
        *held = match operator {
            Operator::Sum => held.wrapping_add(*value),
            Operator::Max => (*held).max(*value),
            Operator::Relay => unreachable!("a switch forwards these"),
        };
    }
    slot.totals.add(totals);
}

fn probe(mut sent: Sent) -> Sent {
    sent.values = None;
    sent.header.totals = Totals::default();
    sent
}

/// A packet that comes in.
#[derive(Debug, Clone)]
enum Event {
    Gradient { job: usize, child: u8, seq: u32, seed: i32, totals: [u32; 4], retransmit: bool, probe: bool },
    Result { job: usize, seq: u32 },
}

/// Generates numbers close to each other on both sides of the wrap-around, and sometimes any
/// number.
fn seq() -> impl Strategy<Value = u32> {
    prop_oneof![20 => (0..5 * WINDOW).prop_map(|n| n.wrapping_sub(2 * WINDOW)), 1 => any::<u32>()]
}

fn event() -> impl Strategy<Value = Event> {
    // Most events are of one job, because a change of job empties slots.
    let job = || prop_oneof![9 => Just(0_usize), 1 => Just(1)];
    let gradient =
        (job(), 0..FAN_IN, seq(), any::<i32>(), any::<[u32; 4]>(), any::<bool>(), prop::bool::weighted(0.1));
    prop_oneof![
        8 => gradient.prop_map(|(job, child, seq, seed, totals, retransmit, probe)| {
            Event::Gradient { job, child, seq, seed, totals, retransmit, probe }
        }),
        1 => (job(), seq()).prop_map(|(job, seq)| Event::Result { job, seq }),
    ]
}

fn rig() -> Rig {
    let mut rig = Rig::new();
    let (job_index, base, window) = (JOB_INDEX, BASE, WINDOW);
    for job in JOBS {
        for port in 1..=u16::from(FAN_IN) {
            let (children, kinds) = (1 << (port - 1), GRADIENT);
            rig.admit(Admit {
                job,
                port,
                job_index,
                base,
                window,
                children,
                kinds,
                aggregate: true,
                fan_in: FAN_IN,
            });
            rig.allow(job, port);
        }
        rig.admit(Admit {
            job,
            port: UP,
            job_index,
            base,
            window,
            children: 0,
            kinds: RESULT,
            aggregate: true,
            fan_in: 0,
        });
        rig.allow(job, UP);
    }
    rig
}

/// Returns the operator of a slice. All packets of a slice have the same operator.
fn operator(seq: u32) -> Operator {
    if seq.is_multiple_of(3) { Operator::Max } else { Operator::Sum }
}

fn gradient(event: &Event) -> Option<Sent> {
    let Event::Gradient {
        job,
        child,
        seq,
        seed,
        totals: [contributors, weight, high, low],
        retransmit,
        probe,
    } = *event
    else {
        return None;
    };
    let mut sent = Sent::gradient(child, FAN_IN, seq, values(seed));
    sent.header.job = JobId::new(JOBS[job])?;
    sent.header.seq = Seq(seq);
    sent.header.operator = operator(seq);
    sent.header.retransmit = retransmit;
    sent.header.totals = Totals { contributors, weight, tag: Tag { high, low } };
    if probe {
        sent.values = None;
    }
    Some(sent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_program_does_what_the_design_says(events in prop::collection::vec(event(), 1..120)) {
        let (mut rig, mut model) = (rig(), Model::default());
        for event in events {
            let Some(sent) = gradient(&event) else {
                let Event::Result { job, seq } = event else { unreachable!() };
                let mut result = Sent::result(seq, 1);
                result.header.job = JobId::new(JOBS[job]).unwrap();
                prop_assert_eq!(rig.send(UP, &result.frame()).len(), 1);
                model.result(JOBS[job], seq);
                continue;
            };
            let out = rig.send(u16::from(sent.hops[0].child) + 1, &sent.frame());
            let out: Vec<_> = out.iter().map(|(port, frame)| (*port, received(frame))).collect();
            let expected: Vec<_> = model.gradient(&sent).map(|out| (UP, out)).into_iter().collect();
            prop_assert_eq!(out, expected, "after {:?}", event);
        }
    }
}
