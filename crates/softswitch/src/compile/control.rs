//! Ingress and egress: tables, conditions and the paths between them.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::emitter::{Emitter, Label};
use super::expression::Expressions;
use super::fault::malformed;
use super::layout::Storage;
use super::objects::Objects;
use super::resolve::Scope;
use super::term::Term;
use super::{note, profile, table};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::{self, ActionCallNode, Conditional, ControlFlow, Table};
use crate::program::{ActionProgram, CodeIndex, Op, ProfileProgram, TableProgram};

/// Compiles a control flow to code that ends with [`Op::End`], followed by the code of its tables'
/// actions.
/// `visible` names the tables that the control plane can see. The compiled tables are added to
/// `tables`, and the action profiles to `profiles`.
pub(super) fn compile(
    flow: &ControlFlow,
    objects: &Objects<'_>,
    visible: &HashSet<&str>,
    profiles: &mut Vec<ProfileProgram>,
    tables: &mut Vec<TableProgram>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let place = format!("pipeline {}", flow.name);
    let first_profile = profiles.len();
    for known in &flow.action_profiles {
        profiles.push(profile::profile(known, objects.layout, out)?);
    }
    let nodes = nodes(flow, out, &place)?;
    check_acyclic(flow, &nodes, &place)?;
    let mut graph = Graph { objects, visible, nodes, place, applied: Vec::new(), first_table: tables.len() };
    graph.emit_all(flow.init_table.as_deref(), out)?;
    let mut compiled = HashMap::new();
    for (applied, masked) in graph.applied {
        let actions = actions(applied, objects, &mut compiled, out)?;
        let mut table = table::table(applied, &masked, actions, objects.layout, objects.document)?;
        if let Some(name) = &applied.action_profile {
            let at = profiles.iter().skip(first_profile).position(|known| known.name == *name);
            let at =
                at.ok_or_else(|| malformed(&table.name, format!("there is no action profile {name}")))?;
            profiles[first_profile + at].tables.push(tables.len());
            table.profile = Some(first_profile + at);
        }
        tables.push(table);
    }
    Ok(())
}

/// One step of a control flow.
#[derive(Clone, Copy)]
enum ControlStep<'a> {
    Table(&'a Table),
    Condition(&'a Conditional),
    Call(&'a ActionCallNode),
}

struct Node<'a> {
    step: ControlStep<'a>,
    label: Label,
}

fn nodes<'a>(
    flow: &'a ControlFlow,
    out: &mut Emitter,
    place: &str,
) -> Result<HashMap<&'a str, Node<'a>>, LoadError> {
    let tables = flow.tables.iter().map(|table| (table.name.as_str(), ControlStep::Table(table)));
    let conditions = flow.conditionals.iter().map(|node| (node.name.as_str(), ControlStep::Condition(node)));
    let calls = flow.action_calls.iter().map(|node| (node.name.as_str(), ControlStep::Call(node)));
    let mut nodes = HashMap::new();
    for (name, step) in tables.chain(conditions).chain(calls) {
        if nodes.insert(name, Node { step, label: out.label() }).is_some() {
            return Err(malformed(place, format!("{name} is there twice")));
        }
    }
    Ok(nodes)
}

/// Returns the names of the steps that a step can lead to.
fn successors<'a>(step: ControlStep<'a>) -> Vec<&'a str> {
    match step {
        ControlStep::Table(table) => {
            let next = table.next_tables.values().chain([&table.base_default_next]);
            next.filter_map(|next| next.as_deref()).collect()
        }
        ControlStep::Condition(node) => {
            [&node.true_next, &node.false_next].into_iter().filter_map(|n| n.as_deref()).collect()
        }
        ControlStep::Call(node) => node.next_node.as_deref().into_iter().collect(),
    }
}

/// Checks that no path leads back to an earlier step, because every packet must reach the end.
fn check_acyclic(flow: &ControlFlow, nodes: &HashMap<&str, Node<'_>>, place: &str) -> Result<(), LoadError> {
    let mut open: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut done = HashSet::new();
    let mut path = HashSet::new();
    let enter = |name| {
        let node: &Node<'_> =
            nodes.get(name).ok_or_else(|| malformed(place, format!("there is no node {name}")))?;
        Ok::<_, LoadError>((name, successors(node.step)))
    };
    if let Some(first) = flow.init_table.as_deref() {
        path.insert(first);
        open.push(enter(first)?);
    }
    while let Some((name, rest)) = open.last_mut() {
        let Some(next) = rest.pop() else {
            path.remove(name);
            done.insert(*name);
            open.pop();
            continue;
        };
        if done.contains(next) {
            continue;
        }
        if !path.insert(next) {
            return Err(malformed(place, format!("{next} comes after itself")));
        }
        open.push(enter(next)?);
    }
    Ok(())
}

struct Graph<'a> {
    objects: &'a Objects<'a>,
    visible: &'a HashSet<&'a str>,
    nodes: HashMap<&'a str, Node<'a>>,
    place: String,
    /// The tables that the flow looks up, in the order of their indices, each with the places of
    /// its masked key fields.
    applied: Vec<(&'a Table, Vec<Option<Storage>>)>,
    /// Index of the first table of `applied`.
    first_table: usize,
}

impl<'a> Graph<'a> {
    /// Emits all steps. Each step comes directly behind a step that leads to it, so that few jumps
    /// are needed.
    fn emit_all(&mut self, first: Option<&'a str>, out: &mut Emitter) -> Result<(), LoadError> {
        let mut waiting = vec![];
        let end = out.label();
        let mut next = first;
        loop {
            match next {
                Some(name) if !out.is_bound(self.label(name)?) => {
                    next = self.emit(name, end, &mut waiting, out)?;
                    continue;
                }
                Some(name) => out.jump(self.label(name)?),
                None => out.push(Op::End),
            }
            next = loop {
                match waiting.pop() {
                    Some(name) if out.is_bound(self.label(name)?) => {}
                    Some(name) => break Some(name),
                    None => {
                        out.bind(end);
                        out.push(Op::End);
                        return Ok(());
                    }
                }
            };
        }
    }

    fn label(&self, name: &str) -> Result<Label, LoadError> {
        let node = self.nodes.get(name);
        Ok(node.ok_or_else(|| malformed(&self.place, format!("there is no node {name}")))?.label)
    }

    /// Emits one step, and returns the step that must follow it.
    fn emit(
        &mut self,
        name: &'a str,
        end: Label,
        waiting: &mut Vec<&'a str>,
        out: &mut Emitter,
    ) -> Result<Option<&'a str>, LoadError> {
        let label = self.label(name)?;
        out.bind(label);
        let step = self.nodes[name].step;
        match step {
            ControlStep::Condition(node) => {
                let place = format!("condition {name}");
                let scope =
                    Scope { layout: self.objects.layout, locals: &[], place: &place, in_parser: false };
                let term = Term::resolve(&Expr::read(&node.expression, &place)?, &scope)?;
                let otherwise = self.jump_target(node.false_next.as_deref(), end, waiting)?;
                if self.objects.notes.is_some() {
                    self.noted_branch(node, &term, otherwise, out)?;
                } else {
                    Expressions::new(out, &place).branch(&term, false, otherwise)?;
                }
                Ok(node.true_next.as_deref())
            }
            ControlStep::Call(node) => {
                self.objects.note(|| note::statements(&node.source_info, name), out);
                self.inline(node.action_id, name, out)?;
                Ok(node.next_node.as_deref())
            }
            ControlStep::Table(table) => self.emit_table(table, end, waiting, out),
        }
    }

    /// Emits a branch that continues with the next instruction if the condition holds.
    ///
    /// Each of the two outcomes logs a step to the packet log.
    fn noted_branch(
        &self,
        node: &Conditional,
        condition: &Term,
        otherwise: Label,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = format!("condition {}", node.name);
        let holds = out.label();
        Expressions::new(out, &place).branch(condition, true, holds)?;
        self.objects.note(|| note::condition(node, false), out);
        out.jump(otherwise);
        out.bind(holds);
        self.objects.note(|| note::condition(node, true), out);
        Ok(())
    }

    /// Returns the label of the step `next` and queues the step to be emitted; without a step,
    /// returns `end`.
    fn jump_target(
        &self,
        next: Option<&'a str>,
        end: Label,
        waiting: &mut Vec<&'a str>,
    ) -> Result<Label, LoadError> {
        let Some(name) = next else { return Ok(end) };
        waiting.push(name);
        self.label(name)
    }

    fn emit_table(
        &mut self,
        table: &'a Table,
        end: Label,
        waiting: &mut Vec<&'a str>,
        out: &mut Emitter,
    ) -> Result<Option<&'a str>, LoadError> {
        let hidden = !self.visible.contains(table.name.as_str());
        if let (true, Some(action)) = (hidden && table.key.is_empty(), constant_action(table)) {
            self.objects.note(|| note::statements(&table.source_info, &table.name), out);
            self.inline(action, &table.name, out)?;
            let name = table.actions.first().map(String::as_str).unwrap_or_default();
            return Ok(next_of(table, &[name, "__MISS__"]));
        }
        let index = (self.first_table + self.applied.len()) as u16;
        self.applied.push((table, table::masked_fields(table, self.objects.layout, out)?));
        self.objects.note(|| note::table(index, table, self.objects.document), out);
        out.push(Op::Apply { table: index });
        if table.next_tables.contains_key("__HIT__") || table.next_tables.contains_key("__MISS__") {
            let hit = self.jump_target(next_of(table, &["__HIT__"]), end, waiting)?;
            out.jump_with(hit, |to| Op::JumpHit { to });
            return Ok(next_of(table, &["__MISS__"]));
        }
        let next: Vec<_> = table.actions.iter().map(|action| next_of(table, &[action])).collect();
        let distinct: BTreeSet<_> =
            next.iter().copied().chain([table.base_default_next.as_deref()]).collect();
        if distinct.len() > 1 {
            for (action, next) in next.iter().enumerate() {
                let to = self.jump_target(*next, end, waiting)?;
                out.jump_with(to, |to| Op::JumpAction { action: action as u16, to });
            }
        }
        Ok(table.base_default_next.as_deref())
    }

    /// Emits the code of an action without parameters at the current position.
    fn inline(&self, id: u64, place: &str, out: &mut Emitter) -> Result<(), LoadError> {
        let action = find_action(self.objects, id, place)?;
        if !action.runtime_data.is_empty() {
            return Err(malformed(place, format!("action {} is called without arguments", action.name)));
        }
        self.objects.action(action, out)
    }
}

/// Returns the step that follows a table in the first of these cases that the table distinguishes.
fn next_of<'a>(table: &'a Table, cases: &[&str]) -> Option<&'a str> {
    let known = cases.iter().find_map(|case| table.next_tables.get(*case));
    known.unwrap_or(&table.base_default_next).as_deref()
}

/// Returns the action of a table that can only run this one action, which has no parameters.
fn constant_action(table: &Table) -> Option<u64> {
    let entry = table.default_entry.as_ref()?;
    let alone = table.action_ids == [entry.action_id] && table.entries.is_empty();
    (alone && entry.action_const && entry.action_data.is_empty() && !table.with_counters)
        .then_some(entry.action_id)
}

fn find_action<'a>(objects: &Objects<'a>, id: u64, place: &str) -> Result<&'a json::Action, LoadError> {
    let action = objects.document.actions.iter().find(|action| action.id == id);
    action.ok_or_else(|| malformed(place, format!("there is no action with id {id}")))
}

/// Compiles those actions of the table that no earlier table has compiled.
fn actions(
    table: &Table,
    objects: &Objects<'_>,
    compiled: &mut HashMap<u64, CodeIndex>,
    out: &mut Emitter,
) -> Result<Vec<ActionProgram>, LoadError> {
    let mut actions = Vec::new();
    for id in &table.action_ids {
        let action = find_action(objects, *id, &format!("table {}", table.name))?;
        let code = match compiled.get(id) {
            Some(code) => *code,
            None => {
                let code = out.here();
                objects.action(action, out)?;
                out.push(Op::Return);
                compiled.insert(*id, code);
                code
            }
        };
        let parameters = action.runtime_data.iter().map(|parameter| parameter.bitwidth).collect();
        actions.push(ActionProgram { name: action.name.clone(), code, parameters });
    }
    Ok(actions)
}
