//! Tests that the search covers all states that a network can reach.
//!
//! Random schedules deliver real packets, which can be lost, duplicated or overtaken, with retransmissions,
//! PROBEs and answers. They must reach no state of switches and server that the search has not seen.
#![allow(clippy::unwrap_used, reason = "all of it is a test")]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::plan::small;
use crate::world::GONE;

/// Returns the parts that the test compares.
///
/// Without a change of generation, the search delivers results to workers at once, so workers are left out.
/// With a change, the search clears the old generation's slots.
fn comparable(world: &World, parts: &Parts) -> Parts {
    let mut parts = parts.clone();
    if world.generation(&parts) > 0 {
        for switch in 0..world.setup.switches() {
            parts[world.slots_of(switch)][..world.setup.window as usize].fill(0);
        }
    }
    if world.setup.change == Change::None { parts[world.server_part()..].into() } else { parts }
}

/// Runs one random schedule; returns all states that it reaches.
fn walk(world: &mut World, seed: u64, (mut parts, mut packets): (Parts, Vec<Packet>)) -> FxHashSet<Parts> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let workers = world.setup.workers();
    let mut reached = FxHashSet::default();
    for _ in 0..400 {
        let chance = rng.random_range(0..100);
        let worker = rng.random_range(0..workers);
        let part = parts[usize::from(worker)];
        if chance < 10 && part != GONE {
            let effect = world.worker_step(worker, part, WorkerInput::Ask).unwrap();
            parts[usize::from(worker)] = effect.next;
            packets.extend(&effect.out);
        } else if chance < 12 {
            let slots = world.slots_of(rng.random_range(0..world.setup.switches()));
            parts[slots].fill(0);
        } else if chance < 14 && world.setup.change != Change::None && world.generation(&parts) == 0 {
            world.change_server(&mut parts).unwrap();
        } else if chance < 20 && world.behind(&parts).contains(&worker) {
            let effect = world.worker_step(worker, part, WorkerInput::Change).unwrap();
            parts[usize::from(worker)] = effect.next;
            packets.extend(&effect.out);
        } else if !packets.is_empty() {
            let at = rng.random_range(0..packets.len());
            let packet = if rng.random_bool(0.2) { packets[at] } else { packets.swap_remove(at) };
            if rng.random_bool(0.9) {
                let part = world.part(&packet);
                let effect = world.effect(parts[part], packet).unwrap();
                assert_eq!(effect.violation, None);
                parts[part] = effect.next;
                packets.extend(&effect.out);
            }
        }
        reached.insert(comparable(world, &parts));
    }
    reached
}

#[test]
fn no_schedule_leads_where_the_search_has_not_been() {
    let small = small();
    for setup in [
        Setup { spine: true, operations: vec![1], ..small.clone() },
        Setup { leaves: vec![2], window: 2, operations: vec![1, 1], ..small.clone() },
        Setup { operations: vec![1], change: Change::Replan, ..small.clone() },
        Setup { operations: vec![1], change: Change::Leave, ..small.clone() },
        small,
    ] {
        let mut progress = |_: Progress| {};
        let (mut search, first) = Search::new(&setup, &mut progress).unwrap();
        let (_, _, sent) = World::new(&setup).unwrap();
        let start = first.parts.clone();
        assert!(search.explore(first).unwrap().1.is_none());
        let seen: FxHashSet<Parts> =
            search.parts_seen.iter().map(|parts| comparable(&search.world, parts)).collect();
        let mut reached = FxHashSet::default();
        for seed in 0..2000 {
            reached.extend(walk(&mut search.world, seed, (start.clone(), sent.clone())));
        }
        let unseen = reached.difference(&seen).count();
        assert_eq!(unseen, 0, "of {} in {setup:?}", reached.len());
        // The search must not reach many more states than real schedules.
        assert!(reached.len() * 4 > seen.len(), "{} of {} in {setup:?}", reached.len(), seen.len());
    }
}
