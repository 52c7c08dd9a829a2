//! The values of fields. There are few, so that packets match entries and comparisons in the
//! program.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigUint;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};
use serde_json::Value;

use super::program::{FieldName, Program, field_name, list, number, ones};

/// The probability that a value is arbitrary.
const ANYTHING: f64 = 0.15;

/// The values that are chosen for fields.
pub(crate) struct Values {
    /// The constants with which the program compares a field.
    compared: BTreeMap<FieldName, BTreeSet<BigUint>>,
}

impl Values {
    pub(crate) fn of(program: &Program) -> Self {
        let mut values = Self { compared: BTreeMap::new() };
        values.collect(&program.json, program);
        for table in program.tables() {
            let targets: Vec<_> = list(&table["key"]).iter().map(|key| field_name(&key["target"])).collect();
            for entry in list(&table["entries"]) {
                for (target, key) in targets.iter().zip(list(&entry["match_key"])) {
                    values.add(target, &key["key"], program);
                }
            }
        }
        values
    }

    /// Collects comparisons of fields with constants.
    fn collect(&mut self, tree: &Value, program: &Program) {
        match tree {
            Value::Object(members) => {
                if let (Some(left), Some(right)) = (members.get("left"), members.get("right")) {
                    for (one, other) in [(left, right), (right, left)] {
                        let mut constants = Vec::new();
                        leaves(other, "hexstr", &mut constants);
                        let mut fields = Vec::new();
                        leaves(one, "field", &mut fields);
                        for (field, constant) in
                            fields.iter().flat_map(|field| constants.iter().map(move |one| (field, one)))
                        {
                            self.add(&field_name(field), constant, program);
                        }
                    }
                }
                members.values().for_each(|member| self.collect(member, program));
            }
            Value::Array(members) => members.iter().for_each(|member| self.collect(member, program)),
            _ => {}
        }
    }

    fn add(&mut self, field: &FieldName, value: &Value, program: &Program) {
        let Some(bits) = program.width(field) else { return };
        if let Some(number) = number(value, bits).filter(|number| number.bits() <= bits as u64) {
            self.compared.entry(field.clone()).or_default().insert(number);
        }
    }

    /// Chooses a value for a field.
    pub(crate) fn choose(&self, field: &FieldName, bits: usize, random: &mut impl Rng) -> BigUint {
        if let Some(known) = self.compared.get(field)
            && random.random_bool(0.6)
        {
            let known: Vec<_> = known.iter().collect();
            return (*known.choose(random).unwrap()).clone();
        }
        any(bits, random)
    }
}

/// Collects the constants, or the fields, of an expression.
fn leaves<'a>(tree: &'a Value, kind: &str, found: &mut Vec<&'a Value>) {
    if tree["type"] == kind {
        found.push(&tree["value"]);
    } else if let Value::Object(members) = tree {
        members.values().for_each(|member| leaves(member, kind, found));
    }
}

/// Returns a value of `bits` bits: mostly a small value, or a value at the end of a range.
pub(crate) fn any(bits: usize, random: &mut impl Rng) -> BigUint {
    if random.random_bool(ANYTHING) {
        return random_bits(bits, random);
    }
    let number: BigUint = match random.random_range(0..12) {
        0..8 => random.random_range(0u8..6).into(),
        8 => ones(bits),
        9 => ones(bits) >> 1,
        10 => BigUint::from(1u8) << (bits.max(1) - 1),
        _ => random.random_range(6u8..20).into(),
    };
    number & ones(bits)
}

pub(crate) fn random_bits(bits: usize, random: &mut impl Rng) -> BigUint {
    let bytes: Vec<u8> = (0..bits.div_ceil(8)).map(|_| random.random()).collect();
    BigUint::from_bytes_be(&bytes) & ones(bits)
}
