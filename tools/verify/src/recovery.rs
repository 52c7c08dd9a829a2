//! Checks that a job completes when faults stop.
//!
//! All packets in flight are lost first. All later packets arrive in order.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use crate::Error;
use crate::machines::WorkerInput;
use crate::network::Packet;
use crate::world::{Parts, World};

/// The limit of deliveries in one round. If a round exceeds it, packets circulate forever.
const TOO_MANY: usize = 100_000;

/// States that are known to complete.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    complete: FxHashSet<Parts>,
}

impl Recovery {
    /// Returns the number of states that were examined.
    pub(crate) fn looked_at(&self) -> usize {
        self.complete.len()
    }

    /// Returns true if the job completes from this state with no packets in flight.
    ///
    /// Each member repeatedly requests everything for which it waits. The job does not complete if a state
    /// recurs.
    pub(crate) fn completes(&mut self, world: &mut World, parts: &Parts) -> Result<bool, Error> {
        let (mut parts, mut path) = (parts.clone(), FxHashSet::default());
        let done = loop {
            if self.complete.contains(&parts) || world.is_done(&parts) {
                break true;
            }
            if !path.insert(parts.clone()) || !round(world, &mut parts)? {
                break false;
            }
        };
        if done {
            self.complete.insert(parts);
            self.complete.extend(path);
        }
        Ok(done)
    }
}

/// Lets all members send requests, and delivers all packets until none are in flight.
///
/// Returns `false` if the deliveries never end, or if a property is violated.
fn round(world: &mut World, parts: &mut Parts) -> Result<bool, Error> {
    let mut packets = VecDeque::new();
    for worker in world.behind(parts) {
        packets.extend(input(world, parts, worker, WorkerInput::Change)?);
    }
    for worker in 0..world.setup.workers() {
        packets.extend(input(world, parts, worker, WorkerInput::Ask)?);
    }
    let mut deliveries = 0;
    while let Some(packet) = packets.pop_front() {
        deliveries += 1;
        let at = world.part(&packet);
        let Some(part) = parts.get_mut(at) else { continue };
        let effect = world.effect(*part, packet)?;
        if deliveries > TOO_MANY || effect.violation.is_some() {
            return Ok(false);
        }
        *part = effect.next;
        packets.extend(&effect.out);
    }
    Ok(true)
}

fn input(world: &mut World, parts: &mut Parts, worker: u8, input: WorkerInput) -> Result<Vec<Packet>, Error> {
    let Some(part) = parts.get_mut(usize::from(worker)) else { return Ok(Vec::new()) };
    if world.workers.facts(*part).is_none() {
        return Ok(Vec::new());
    }
    let effect = world.worker_step(worker, *part, input)?;
    *part = effect.next;
    Ok(effect.out)
}
