//! Describes a schedule in words.

use crate::Error;
use crate::event::Event;
use crate::machines::WorkerInput;
use crate::network::{Packet, Packets};
use crate::setup::Node;
use crate::world::{Parts, World};

/// Describes a schedule, event by event. Results that workers receive at once are left out.
pub(crate) fn tell(
    world: &mut World,
    packets: &Packets,
    start: &Parts,
    way: &[Event],
) -> Result<Vec<String>, Error> {
    let (mut lines, mut arrived) = (Vec::new(), Vec::new());
    let mut parts = start.clone();
    for event in way {
        lines.push(match *event {
            Event::Arrives(id) => {
                let packet = packets.get(id);
                let again = if arrived.contains(&id) { " once more" } else { "" };
                arrived.push(id);
                let at = world.part(&packet);
                let Some(part) = parts.get_mut(at) else { continue };
                let effect = world.effect(*part, packet)?;
                *part = effect.next;
                let on = if effect.out.iter().any(|out| out.lasting().is_some()) { ", goes on" } else { "" };
                format!("{}{again}{on}", describe(world, &packet))
            }
            Event::Reboots(switch) => {
                let slots = world.slots_of(switch);
                parts.get_mut(slots).unwrap_or_default().fill(0);
                format!("{} reboots", place(world, Node::Switch(switch)))
            }
            Event::ServerChanges => {
                world.change_server(&mut parts)?;
                "the server changes over to the next generation".to_owned()
            }
            Event::WorkerChanges(worker) => {
                let Some(part) = parts.get_mut(usize::from(worker)) else { continue };
                *part = world.worker_step(worker, *part, WorkerInput::Change)?.next;
                format!("worker {worker} changes over to the next generation")
            }
        });
    }
    Ok(lines)
}

fn place(world: &World, node: Node) -> String {
    match node {
        Node::Worker(at) => format!("worker {at}"),
        Node::Switch(at) if usize::from(at) < world.setup.leaves.len() => format!("leaf {at}"),
        Node::Switch(_) => "the spine".to_owned(),
        Node::Server => "the server".to_owned(),
    }
}

fn describe(world: &World, packet: &Packet) -> String {
    let (what, slice, generation, to, content) = match *packet {
        Packet::Up { slice, generation, to, child, content, .. } => {
            (format!("GRADIENT of child {child}"), slice, generation, to, content)
        }
        Packet::Down { slice, generation, to, content, .. } => {
            ("RESULT".to_owned(), slice, generation, to, Some(content))
        }
    };
    let content = content.and_then(|content| world.contents.get(content));
    let contributors = content.map_or(0, |content| content.totals.contributors);
    let generation =
        if world.setup.generations() > 1 { format!(", generation {generation}") } else { String::new() };
    format!("at {}: {what}, slice {}{generation}, of {contributors}", place(world, to), slice + 1)
}

/// Describes the final state of a job that is stuck.
pub(crate) fn stuck(world: &World, parts: &Parts) -> String {
    let waits = |worker: u8| {
        let facts = parts.get(usize::from(worker)).and_then(|&id| world.workers.facts(id))?;
        let slices = world.setup.slices();
        let waits = facts.dues.iter().filter(|due| usize::from(**due) < slices);
        let mut dues: Vec<u8> = waits.map(|due| due + 1).collect();
        dues.sort_unstable();
        let dues: Vec<String> = dues.iter().map(u8::to_string).collect();
        (!dues.is_empty()).then(|| format!("worker {worker} has no result of {}", dues.join(", ")))
    };
    let waits: Vec<String> = (0..world.setup.workers()).filter_map(waits).collect();
    format!("all that is on its way is lost; from here on nothing is, but {} for ever", waits.join(", "))
}
