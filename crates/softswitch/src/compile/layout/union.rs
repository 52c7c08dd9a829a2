//! Header unions and their member headers.

use std::collections::HashMap;

use super::{Layout, MAX_WORDS};
use crate::compile::fault::{malformed, too_many};
use crate::error::LoadError;
use crate::json::Document;
use crate::program::Word;

/// A program's header unions.
#[derive(Debug, Default)]
pub(super) struct Unions {
    /// The members of each union, by name.
    by_name: HashMap<String, Vec<u16>>,
    /// The unions that stacks consist of, by name.
    stacks: HashMap<String, UnionStack>,
    /// For each member, the other members of its union.
    siblings: HashMap<u16, Vec<u16>>,
}

/// A stack of header unions.
#[derive(Debug)]
pub(in crate::compile) struct UnionStack {
    /// The word with the number of headers in use.
    pub(in crate::compile) count: Word,
    /// The members of each union.
    pub(in crate::compile) unions: Vec<Vec<u16>>,
    /// The members' names.
    names: Vec<String>,
}

impl UnionStack {
    /// Returns the position of a member in its union.
    pub(in crate::compile) fn member(&self, name: &str, place: &str) -> Result<usize, LoadError> {
        let position = self.names.iter().position(|known| known == name);
        position.ok_or_else(|| malformed(place, format!("the stack's unions have no member {name}")))
    }
}

impl Layout {
    /// Finds the members of all unions.
    pub(super) fn add_unions(&mut self, document: &Document) -> Result<(), LoadError> {
        let mut by_id = HashMap::new();
        for union in &document.header_unions {
            let place = format!("header union {}", union.name);
            let member = |id: &u64| {
                let header = document.headers.iter().find(|header| header.id == *id);
                let header =
                    header.ok_or_else(|| malformed(&place, format!("there is no header with id {id}")))?;
                self.wire_header(&header.name, &place)
            };
            let members = union.header_ids.iter().map(member).collect::<Result<Vec<_>, _>>()?;
            if members.len() > 1000 {
                return Err(too_many(&place, "headers in a union"));
            }
            for member in &members {
                let others = members.iter().copied().filter(|other| other != member);
                self.unions.siblings.insert(*member, others.collect());
            }
            by_id.insert(union.id, members.clone());
            self.unions.by_name.insert(union.name.clone(), members);
        }
        for stack in &document.header_union_stacks {
            let place = format!("header union stack {}", stack.name);
            let union = |id: &u64| {
                let union = by_id.get(id).cloned();
                union.ok_or_else(|| malformed(&place, format!("there is no header union with id {id}")))
            };
            let unions = stack.header_union_ids.iter().map(union).collect::<Result<Vec<_>, _>>()?;
            let kind = document.header_union_types.iter().find(|kind| kind.name == stack.union_type);
            let kind = kind
                .ok_or_else(|| malformed(&place, format!("there is no union type {}", stack.union_type)))?;
            let names: Vec<_> = kind.headers.iter().map(|(name, _)| name.clone()).collect();
            if unions.is_empty() || unions.iter().any(|union| union.len() != names.len()) {
                return Err(malformed(&place, "its unions are not of its type"));
            }
            let stack_of_unions = UnionStack { count: self.words as Word, unions, names };
            self.words += 1;
            if self.words > MAX_WORDS {
                return Err(too_many(&place, "fields"));
            }
            self.unions.stacks.insert(stack.name.clone(), stack_of_unions);
        }
        Ok(())
    }

    /// Returns the members of a header union.
    pub(in crate::compile) fn union(&self, name: &str, place: &str) -> Result<&[u16], LoadError> {
        let members = self.unions.by_name.get(name).map(Vec::as_slice);
        members.ok_or_else(|| malformed(place, format!("there is no header union {name}")))
    }

    /// Returns a stack of header unions.
    pub(in crate::compile) fn union_stack(&self, name: &str, place: &str) -> Result<&UnionStack, LoadError> {
        let stack = self.unions.stacks.get(name);
        stack.ok_or_else(|| malformed(place, format!("there is no header union stack {name}")))
    }

    /// Returns the headers that become invalid when this header becomes valid.
    pub(in crate::compile) fn siblings(&self, header: u16) -> &[u16] {
        self.unions.siblings.get(&header).map(Vec::as_slice).unwrap_or_default()
    }
}
