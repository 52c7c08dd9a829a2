//! The objects of a program that its code refers to by name.

use std::cell::RefCell;

use super::fault::{malformed, unsupported};
use super::field_list;
use super::layout::{Layout, Slot, Storage};
use crate::error::LoadError;
use crate::json;
use crate::json::expression::Expr;
use crate::program::{Arguments, MAX_BITS, Message, Note, lines_for};

/// The objects that actions refer to by name.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    pub(super) layout: &'a Layout,
    pub(super) document: &'a json::Document,
    pub(super) arguments: Arguments,
    /// The messages that the program logs, collected during compilation.
    pub(super) messages: RefCell<Vec<Message>>,
    /// The steps that the program reports to the packet log, if any; collected during compilation.
    pub(super) notes: Option<RefCell<Vec<Note>>>,
}

impl Objects<'_> {
    /// Returns the index of a counter array that actions can count with.
    pub(super) fn counter(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        let mut indirect = self.document.counter_arrays.iter().filter(|counter| !counter.is_direct);
        let index = indirect.position(|counter| counter.name == name);
        index.map(|i| i as u16).ok_or_else(|| malformed(place, format!("there is no counter array {name}")))
    }

    /// Returns the index and the width of a register array.
    pub(super) fn register(&self, name: &str, place: &str) -> Result<(u16, u32), LoadError> {
        let mut registers = self.document.register_arrays.iter().enumerate();
        let found = registers.find(|(_, register)| register.name == name);
        let (index, register) =
            found.ok_or_else(|| malformed(place, format!("there is no register array {name}")))?;
        Ok((index as u16, register.bitwidth as u32))
    }

    /// Returns the index of the field list whose id is a primitive's argument.
    pub(super) fn field_list(&self, id: &Expr, place: &str) -> Result<u16, LoadError> {
        let number = if let Expr::Const(number) = id { number.to_u64() } else { None };
        let id = number.ok_or_else(|| unsupported(place, "a field list that varies"))?;
        field_list::index(id, self.document, place)
    }

    /// Returns the places of an action's parameters.
    pub(super) fn parameters(&self, action: &json::Action) -> Result<Vec<Slot>, LoadError> {
        let (mut word, mut line) = (self.arguments.word, self.arguments.line);
        let mut slots = Vec::new();
        for parameter in &action.runtime_data {
            let bits = parameter.bitwidth;
            let place = format!("action {}, parameter {}", action.name, parameter.name);
            if bits == 0 || bits > MAX_BITS / 2 {
                return Err(unsupported(&place, format!("a width of {bits} bits")));
            }
            let at = if bits <= 64 {
                word += 1;
                Storage::Word(word - 1)
            } else {
                line += lines_for(bits);
                Storage::Lines(line - lines_for(bits))
            };
            slots.push(Slot { place: at, bits, signed: false, length: None });
        }
        Ok(slots)
    }
}
