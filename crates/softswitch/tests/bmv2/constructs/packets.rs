//! Random packets: most of them take a path through a program's parser, and some fail in it.

use std::collections::BTreeMap;

use num_bigint::BigUint;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::program::{FieldName, Program, field_name, list, number, ones, text};
use super::run::CPU_PORT;
use super::values::{Values, random_bits};

/// The ports at which packets come in.
const PORTS: std::ops::RangeInclusive<u16> = 0..=6;
/// The maximum number of parser states for which a packet is made.
const STATES: usize = 16;

/// An endless stream of ports and frames. An equal seed gives an equal stream.
pub(crate) struct Packets<'a> {
    program: &'a Program,
    values: &'a Values,
    random: ChaCha8Rng,
}

impl<'a> Packets<'a> {
    pub(crate) fn new(program: &'a Program, values: &'a Values, seed: u64) -> Self {
        Self { program, values, random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Makes a packet that takes a random path through the parser.
    fn parsed(&mut self) -> Vec<u8> {
        let mut packet = Bits::default();
        let mut next = self.program.json["parsers"][0]["init_state"].as_str();
        for _ in 0..STATES {
            let Some(name) = next else { break };
            let state = self.program.state(name);
            for op in list(&state["parser_ops"]) {
                self.operation(op, &mut packet);
            }
            let transition = list(&state["transitions"]).choose(&mut self.random).unwrap();
            self.steer(state, transition, &mut packet);
            next = transition["next_state"].as_str();
        }
        let payload = self.random.random_range(0..40);
        packet.push(payload * 8, &random_bits(payload * 8, &mut self.random));
        packet.finish()
    }

    /// Appends the bits that an operation of the parser reads.
    fn operation(&mut self, op: &Value, packet: &mut Bits) {
        let parameters = list(&op["parameters"]);
        match text(&op["op"]) {
            "extract" | "extract_VL" => {
                let value = &parameters[0]["value"];
                let header = match text(&parameters[0]["type"]) {
                    "union_stack" => format!("{}.{}", text(&value[0]), text(&value[1])),
                    _ => text(value).to_owned(),
                };
                for field in self.program.fields(&header) {
                    let name = (header.clone(), field.name.clone());
                    if field.varies {
                        let bytes = self.random.random_range(0..=field.bits / 8);
                        packet.push(bytes * 8, &random_bits(bytes * 8, &mut self.random));
                    } else {
                        let value = self.values.choose(&name, field.bits, &mut self.random);
                        packet.places.insert(name, (packet.len(), field.bits));
                        packet.push(field.bits, &value);
                    }
                }
            }
            "set" => {
                let (to, from) = (&parameters[0], &parameters[1]);
                let place = match text(&from["type"]) {
                    "lookahead" => ahead(packet, &from["value"]),
                    "field" => packet.places.get(&field_name(&from["value"])).copied(),
                    _ => None,
                };
                packet.places.extend(place.map(|place| (field_name(&to["value"]), place)));
            }
            "advance" => {
                let bits = number(&parameters[0]["value"], 32).and_then(|bits| u16::try_from(bits).ok());
                let bits = bits.map_or(8, usize::from);
                packet.push(bits, &random_bits(bits, &mut self.random));
            }
            _ => {}
        }
    }

    /// Changes the packet so that a transition is likely to be taken.
    fn steer(&mut self, state: &Value, transition: &Value, packet: &mut Bits) {
        if transition["type"] != "hexstr" {
            return;
        }
        let parts: Vec<_> = list(&state["transition_key"])
            .iter()
            .map(|part| match text(&part["type"]) {
                "lookahead" => ahead(packet, &part["value"]),
                "union_stack_field" => {
                    let value = &part["value"];
                    let header = format!("{}.{}", text(&value[0]), text(&value[1]));
                    packet.places.get(&(header, text(&value[2]).to_owned())).copied()
                }
                _ => packet.places.get(&field_name(&part["value"])).copied(),
            })
            .collect();
        let (Some(value), mask) = (number(&transition["value"], 0), number(&transition["mask"], 0)) else {
            return;
        };
        // Each part of the key is padded to whole bytes.
        let mut below = 0;
        for part in parts.iter().rev() {
            let Some((at, bits)) = *part else { return };
            let of = |number: &BigUint| (number >> below) & ones(bits);
            let noise = self.values.choose(&Default::default(), bits, &mut self.random);
            let mask = mask.as_ref().map_or(ones(bits), of);
            packet.set(at, bits, &((of(&value) & &mask) | (noise & (&mask ^ &ones(bits)))));
            below += bits.div_ceil(8) * 8;
        }
    }

    /// Damages or replaces some of the frames, at random.
    fn damage(&mut self, frame: &mut Vec<u8>) {
        let random = &mut self.random;
        match random.random_range(0..100) {
            0..6 => frame.truncate(random.random_range(1..=frame.len())),
            6..10 => {
                let at = random.random_range(0..frame.len());
                frame[at] ^= 1 << random.random_range(0..8);
            }
            10..12 => *frame = (0..random.random_range(1..80)).map(|_| random.random()).collect(),
            12 => frame.extend((0..random.random_range(1..300)).map(|_| random.random::<u8>())),
            _ => {}
        }
    }
}

impl Iterator for Packets<'_> {
    type Item = (u16, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut frame = self.parsed();
        if frame.is_empty() {
            frame.push(0);
        }
        self.damage(&mut frame);
        let from_controller = self.program.info.packet_out().is_some() && self.random.random_bool(0.3);
        let port = if from_controller { CPU_PORT } else { self.random.random_range(PORTS) };
        Some((port, frame))
    }
}

/// Returns the position of the bits that a lookahead reads.
fn ahead(packet: &Bits, value: &Value) -> Option<(usize, usize)> {
    Some((packet.len() + value[0].as_u64()? as usize, value[1].as_u64()? as usize))
}

/// A packet under construction.
#[derive(Default)]
struct Bits {
    bits: Vec<bool>,
    /// The positions of fields in the packet, including fields that are not yet appended.
    places: BTreeMap<FieldName, (usize, usize)>,
    /// Values for positions beyond the current end, which `finish` writes.
    later: Vec<(usize, usize, BigUint)>,
}

impl Bits {
    fn len(&self) -> usize {
        self.bits.len()
    }

    fn push(&mut self, bits: usize, value: &BigUint) {
        self.bits.extend((0..bits).rev().map(|bit| value.bit(bit as u64)));
    }

    fn set(&mut self, at: usize, bits: usize, value: &BigUint) {
        if at + bits > self.len() {
            self.later.push((at, bits, value.clone()));
            return;
        }
        for bit in 0..bits {
            self.bits[at + bit] = value.bit((bits - 1 - bit) as u64);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        for (at, bits, value) in std::mem::take(&mut self.later) {
            if at + bits <= self.len() {
                self.set(at, bits, &value);
            }
        }
        self.bits.chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | u8::from(*bit))).collect()
    }
}
