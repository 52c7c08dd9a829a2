//! Compiles the BMv2 JSON into a [`Program`].
//!
//! The compiler resolves all names, fixes all widths, and refuses everything that this switch does
//! not support. Every loop in the result ends: control flows only go forward, and actions and the
//! parser count the jumps back.

mod calculation;
mod checksum;
mod control;
mod digest;
mod emitter;
mod expression;
mod fault;
mod field_list;
mod headers;
mod layout;
mod message;
mod meter;
mod note;
mod objects;
mod parser;
mod primitive;
mod profile;
mod resolve;
mod series;
mod table;
mod term;
mod transition;

use std::cell::RefCell;
use std::collections::HashSet;

use emitter::{Emitter, Finished};
use fault::{malformed, too_many, unsupported};
use layout::Layout;
use objects::Objects;
use resolve::Scope;

use crate::error::LoadError;
use crate::json::{ControlFlow, Document, ValueSet};
use crate::program::{
    Arguments, Entries, LIMBS, LineIndex, MAX_BITS, Op, Program, RegisterProgram, ValueSetProgram, Word,
    lines_for,
};

/// The maximum size of a program's registers in bytes.
const MAX_REGISTER_BYTES: u64 = 1 << 30;
/// The maximum number of cells that a program's counters may have.
const MAX_COUNTERS: u64 = 1 << 24;

/// The maximum number of objects of one kind. It fits into indices of 16 bits.
const MAX_OBJECTS: usize = 10_000;

/// Compiles a program.
/// `visible` are the names of the tables that the control plane can see; `noted` is true if the program reports its
/// steps to the packet log.
pub(crate) fn compile(
    document: &Document,
    visible: &HashSet<&str>,
    noted: bool,
) -> Result<Program, LoadError> {
    check_sizes(document)?;
    let layout = Layout::new(document)?;
    let mut standard = layout.standard(&document.errors)?;
    let arguments = Arguments { word: layout.words as Word, line: layout.lines as LineIndex };
    let (argument_words, argument_lines) = argument_space(document)?;
    let mut out = Emitter::new(layout.words + argument_words, layout.lines + argument_lines);
    // This comes first, because the compilation of actions relies on valid register widths.
    let registers = registers(document)?;
    let objects = Objects {
        layout: &layout,
        document,
        arguments,
        messages: RefCell::default(),
        notes: noted.then(RefCell::default),
    };
    let calculations = calculation::compile(document, &layout, &mut out)?;
    let (mut checksums, mut profiles, mut tables) = (Vec::new(), Vec::new(), Vec::new());

    let mut entries = Entries { parser: out.here(), ..Entries::default() };
    let [json_parser] = document.parsers.as_slice() else {
        return Err(unsupported("the program", "another number of parsers than one"));
    };
    parser::compile(json_parser, &objects, &standard, &mut out)?;
    out.push(Op::End);
    // The switch verifies the checksums of a packet even if the parser has failed.
    entries.verify = out.here();
    checksum::compile(&objects, true, &calculations, &mut checksums, &mut out)?;
    out.push(Op::End);
    entries.ingress = out.here();
    control::compile(
        pipeline(document, "ingress")?,
        &objects,
        visible,
        &mut profiles,
        &mut tables,
        &mut out,
    )?;
    entries.egress = out.here();
    control::compile(pipeline(document, "egress")?, &objects, visible, &mut profiles, &mut tables, &mut out)?;
    entries.update = out.here();
    checksum::compile(&objects, false, &calculations, &mut checksums, &mut out)?;
    deparser_primitives(document, &objects, &mut out)?;
    out.push(Op::End);
    standard.clocks = layout.clocks()?;
    let messages = objects.messages.into_inner();
    let notes = objects.notes.map(|notes| note::notes(notes.into_inner(), &layout, document));

    let field_lists = field_list::compile(document, &layout)?;
    let (digests, digest_lists) = digest::compile(document, &layout)?;
    let egress_changes_lines = out.code_from(entries.egress).iter().any(|op| changes_lines(op, &layout));
    let deparser = deparser(document, &layout)?;
    let format = |header: &u16| &layout.formats[usize::from(layout.instances[usize::from(*header)].format)];
    let header_bytes = deparser.iter().map(|header| format(header).most_bytes).sum();
    let Finished { mut code, words, lines } = out.finish()?;
    series::join(&mut code, &registers);
    Ok(Program {
        code,
        entries,
        words,
        lines,
        field_words: layout.words,
        metadata_words: layout.metadata_words,
        metadata_lines: layout.metadata_lines,
        field_lines: layout.lines,
        egress_changes_lines,
        standard,
        formats: layout.formats,
        headers: layout.instances,
        stacks: layout.stack_list,
        deparser,
        header_bytes,
        checksums,
        calculations,
        messages,
        tables,
        counters: counters(document)?,
        value_sets: value_sets(document),
        profiles,
        meters: meter::arrays(document)?,
        registers,
        arguments,
        field_lists,
        digests,
        digest_lists,
        notes,
    })
}

/// Returns the parser's value sets; their fields come from the P4Info.
fn value_sets(document: &Document) -> Vec<ValueSetProgram> {
    let set = |set: &ValueSet| ValueSetProgram {
        name: set.name.clone(),
        size: usize::try_from(set.max_size).unwrap_or(usize::MAX),
        fields: Vec::new(),
    };
    document.parse_vsets.iter().map(set).collect()
}

/// Refuses programs with more objects than can be numbered.
fn check_sizes(document: &Document) -> Result<(), LoadError> {
    let flows = || document.pipelines.iter();
    let sizes = [
        ("counters", document.counter_arrays.len()),
        ("meters", document.meter_arrays.len()),
        ("registers", document.register_arrays.len()),
        ("checksums", document.checksums.len()),
        ("field lists", document.field_lists.len()),
        ("digests", document.learn_lists.len()),
        ("value sets", document.parse_vsets.len()),
        ("calculations", document.calculations.len()),
        ("tables", flows().map(|flow| flow.tables.len()).sum()),
        ("actions", flows().flat_map(|flow| &flow.tables).map(|table| table.action_ids.len()).sum()),
    ];
    match sizes.iter().find(|(_, size)| *size > MAX_OBJECTS) {
        Some((what, _)) => Err(too_many("the program", what)),
        None => Ok(()),
    }
}

fn pipeline<'a>(document: &'a Document, name: &str) -> Result<&'a ControlFlow, LoadError> {
    let flow = document.pipelines.iter().find(|flow| flow.name == name);
    flow.ok_or_else(|| malformed("the program", format!("there is no pipeline {name}")))
}

/// Returns the maximum numbers of words and lines that the arguments of an action take.
fn argument_space(document: &Document) -> Result<(usize, usize), LoadError> {
    let mut most = (0, 0);
    for action in &document.actions {
        let widths = action.runtime_data.iter().map(|parameter| parameter.bitwidth.min(MAX_BITS));
        let lines: usize = widths.filter(|bits| *bits > 64).map(|bits| usize::from(lines_for(bits))).sum();
        let words = action.runtime_data.len();
        if words > 1000 || lines > 1000 {
            return Err(too_many(&format!("action {}", action.name), "parameters"));
        }
        most = (most.0.max(words), most.1.max(lines));
    }
    Ok(most)
}

/// Returns true if the instruction writes to lines of fields.
fn changes_lines(op: &Op, layout: &Layout) -> bool {
    let has_lines = |header: u16| {
        let header = layout.instances[usize::from(header)];
        layout.formats[usize::from(header.format)].lines > 0
    };
    match op {
        Op::WideCopy { d, .. }
        | Op::WideAdd { d, .. }
        | Op::WideSub { d, .. }
        | Op::WideAnd { d, .. }
        | Op::WideOr { d, .. }
        | Op::WideXor { d, .. }
        | Op::LanesAdd { d, .. }
        | Op::WideMul { d, .. }
        | Op::WideShl { d, .. }
        | Op::WideShr { d, .. }
        | Op::Widen { d, .. }
        | Op::Extend { d, .. }
        | Op::WideRegisterRead { d, .. }
        | Op::LanesAddToRegister { d, .. } => usize::from(*d) < layout.lines,
        Op::SetValid { header } | Op::CopyHeader { d: header, .. } => has_lines(*header),
        Op::Push { stack, .. } | Op::Pop { stack, .. } => {
            has_lines(layout.stack_list[usize::from(*stack)].first)
        }
        _ => false,
    }
}

fn deparser(document: &Document, layout: &Layout) -> Result<Vec<u16>, LoadError> {
    let [deparser] = document.deparsers.as_slice() else {
        return Err(unsupported("the program", "another number of deparsers than one"));
    };
    let place = format!("deparser {}", deparser.name);
    deparser.order.iter().map(|name| layout.wire_header(name, &place)).collect()
}

/// Compiles the statements that the deparser runs before it writes the headers.
fn deparser_primitives(
    document: &Document,
    objects: &Objects<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    for deparser in &document.deparsers {
        let place = format!("deparser {}", deparser.name);
        let scope = Scope { layout: objects.layout, locals: &[], place: &place, in_parser: false };
        for call in &deparser.primitives {
            objects.primitive(call, &scope, &[], out)?;
        }
    }
    Ok(())
}

/// Returns the sizes of the counter arrays that actions use.
fn counters(document: &Document) -> Result<Vec<usize>, LoadError> {
    let indirect = document.counter_arrays.iter().filter(|counter| !counter.is_direct);
    let sizes: Vec<u64> = indirect.map(|counter| counter.size.unwrap_or(0)).collect();
    if sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size)) > MAX_COUNTERS {
        return Err(too_many("the program", "counters"));
    }
    Ok(sizes.into_iter().map(|size| size as usize).collect())
}

fn registers(document: &Document) -> Result<Vec<RegisterProgram>, LoadError> {
    let mut bytes = 0_u64;
    let mut registers = Vec::new();
    for register in &document.register_arrays {
        let place = format!("register {}", register.name);
        let bits = u32::try_from(register.bitwidth).ok().filter(|bits| (1..=MAX_BITS / 2).contains(bits));
        let bits =
            bits.ok_or_else(|| unsupported(&place, format!("a width of {} bits", register.bitwidth)))?;
        let lines = if bits <= 64 { 0 } else { usize::from(lines_for(bits)) };
        let cell = (lines * LIMBS).max(1) as u64 * 8;
        bytes = bytes.saturating_add(register.size.saturating_mul(cell));
        if bytes > MAX_REGISTER_BYTES {
            return Err(too_many(&place, "registers"));
        }
        registers.push(RegisterProgram { size: register.size as usize, lines });
    }
    Ok(registers)
}
