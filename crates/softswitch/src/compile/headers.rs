//! Primitives and parser operations on whole headers, unions and stacks.

use super::emitter::Emitter;
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::layout::{Layout, UnionStack};
use super::resolve::{self, HeaderRef, Scope, UnionRef, name};
use super::term::Term;
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::program::{Op, Word};

/// Compiles a primitive on whole headers.
pub(super) fn primitive(
    op: &str,
    arguments: &[Expr],
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let place = scope.place;
    let layout = scope.layout;
    match (op, arguments) {
        ("add_header", [target]) => for_each(target, scope, out, |header, out| {
            set_valid(header, layout, out);
            Ok(())
        }),
        ("remove_header", [target]) => for_each(target, scope, out, |header, out| {
            out.push(Op::SetInvalid { header });
            Ok(())
        }),
        ("assign_header", [target, source]) => for_each(target, scope, out, |d, out| {
            for_each(source, scope, out, |a, out| copy_member(d, a, layout, place, out))
        }),
        ("assign_union", [target, source]) => for_each_union(target, scope, out, |d, out| {
            for_each_union(source, scope, out, |a, out| copy_union(d, a, layout, place, out))
        }),
        ("assign_header_stack", [target, source]) => {
            let stack = |argument| layout.stack(name(argument, "header_stack", place)?, place);
            let (d, a) = (stack(target)?, stack(source)?);
            let (to, from) = (layout.stack_headers(d), layout.stack_headers(a));
            if to.len() != from.len() {
                return Err(malformed(place, "the header stacks are of different sizes"));
            }
            to.zip(from).try_for_each(|(d, a)| copy(d, a, layout, place, out))?;
            let count = |stack: u16| layout.stack_list[usize::from(stack)].count;
            out.push(Op::Copy { d: count(d), a: count(a), cut: 0 });
            Ok(())
        }
        ("assign_union_stack", [target, source]) => {
            let stack = |argument| layout.union_stack(name(argument, "header_union_stack", place)?, place);
            let (d, a) = (stack(target)?, stack(source)?);
            if d.unions.len() != a.unions.len() {
                return Err(malformed(place, "the header union stacks are of different sizes"));
            }
            let mut unions = d.unions.iter().zip(&a.unions);
            unions.try_for_each(|(d, a)| copy_union(d, a, layout, place, out))?;
            out.push(Op::Copy { d: d.count, a: a.count, cut: 0 });
            Ok(())
        }
        ("push" | "pop", [Expr::Object(kind, stack), Expr::Const(by)]) => {
            let by = by.to_u64().unwrap_or(u64::MAX).min(u64::from(u16::MAX)) as u16;
            let push = op == "push";
            if kind == "header_union_stack" {
                let stack = layout.union_stack(stack, place)?;
                return move_unions(stack, usize::from(by), push, layout, place, out);
            }
            let stack = layout.stack(stack, place)?;
            out.push(if push { Op::Push { stack, by } } else { Op::Pop { stack, by } });
            Ok(())
        }
        ("push" | "pop", [_, _]) => Err(unsupported(place, format!("a '{op}' by a number that varies"))),
        _ => Err(malformed(place, format!("the primitive '{op}' has a wrong number of arguments"))),
    }
}

/// Compiles the extraction of a header; `length` is the number of bits of its field of variable length.
pub(super) fn extract(
    target: &Expr,
    length: Option<&Expr>,
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let (layout, place) = (scope.layout, scope.place);
    // The copy keeps the length while the code selects a header of the stack.
    let length = match length {
        Some(length) => {
            let length = Term::resolve(length, scope)?;
            let bits = Expressions::new(out, place).word(&length, 32)?;
            let kept = out.new_word();
            out.push(Op::Copy { d: kept, a: bits, cut: 0 });
            Some(kept)
        }
        None => None,
    };
    match target {
        Expr::Object(kind, stack) if kind == "stack" => {
            let stack = layout.stack(stack, place)?;
            if let Some(bits) = length {
                let headers = layout.stack_headers(stack).collect::<Vec<_>>();
                let count = layout.stack_list[usize::from(stack)].count;
                return extract_next(&headers, count, Some(bits), scope, out);
            }
            out.push(Op::ExtractNext { stack });
            Ok(())
        }
        Expr::UnionStack(stack, member) => {
            let stack = layout.union_stack(stack, place)?;
            let member = stack.member(member, place)?;
            let headers: Vec<u16> = stack.unions.iter().map(|members| members[member]).collect();
            extract_next(&headers, stack.count, length, scope, out)
        }
        header => {
            let header = layout.wire_header(name(header, "regular", place)?, place)?;
            extract_header(header, length, layout, out);
            Ok(())
        }
    }
}

/// Emits code that extracts the next header of a stack. The word `count` holds the number of
/// headers in use.
fn extract_next(
    headers: &[u16],
    count: Word,
    length: Option<Word>,
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let end = out.label();
    for (position, header) in headers.iter().enumerate() {
        let next = out.label();
        let position = out.word_constant(position as u64);
        out.jump_with(next, |to| Op::JumpUnequal { a: count, b: position, to });
        extract_header(*header, length, scope.layout, out);
        let one = out.word_constant(1);
        out.push(Op::Add { d: count, a: count, b: one, cut: 0 });
        out.jump(end);
        out.bind(next);
    }
    out.push(Op::StackFull);
    out.bind(end);
    Ok(())
}

fn extract_header(header: u16, length: Option<Word>, layout: &Layout, out: &mut Emitter) {
    let format = &layout.formats[usize::from(header)];
    out.push(match length {
        Some(bits) => Op::ExtractVariable { header, bits },
        None if format.loose.is_empty() && format.variable.is_none() => Op::Extract { header },
        None => Op::ExtractLoose { header },
    });
    invalidate_siblings(header, layout, out);
}

fn set_valid(header: u16, layout: &Layout, out: &mut Emitter) {
    out.push(Op::SetValid { header });
    invalidate_siblings(header, layout, out);
}

/// Emits code that invalidates the other members of the header's union, because only one member may
/// be valid.
fn invalidate_siblings(header: u16, layout: &Layout, out: &mut Emitter) {
    for sibling in layout.siblings(header) {
        out.push(Op::SetInvalid { header: *sibling });
    }
}

fn copy(d: u16, a: u16, layout: &Layout, place: &str, out: &mut Emitter) -> Result<(), LoadError> {
    let shape = |header: u16| {
        let format = &layout.formats[usize::from(header)];
        (format.bytes, format.most_bytes, format.words, format.lines)
    };
    if shape(d) != shape(a) {
        return Err(malformed(place, "the headers are of different types"));
    }
    out.push(Op::CopyHeader { d, a });
    Ok(())
}

/// Emits code that copies header `a` to header `d`, which may be a member of a union.
fn copy_member(d: u16, a: u16, layout: &Layout, place: &str, out: &mut Emitter) -> Result<(), LoadError> {
    copy(d, a, layout, place, out)?;
    if !layout.siblings(d).is_empty() && d != a {
        let (word, zero) = (layout.instances[usize::from(d)].word, out.word_constant(0));
        let end = out.label();
        out.jump_with(end, |to| Op::JumpEqual { a: word, b: zero, to });
        invalidate_siblings(d, layout, out);
        out.bind(end);
    }
    Ok(())
}

fn copy_union(
    d: &[u16],
    a: &[u16],
    layout: &Layout,
    place: &str,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    if d.len() != a.len() {
        return Err(malformed(place, "the header unions are of different types"));
    }
    d.iter().zip(a).try_for_each(|(d, a)| copy(*d, *a, layout, place, out))
}

/// Emits code that moves the unions of a stack towards its end (`push`) or its beginning.
fn move_unions(
    stack: &UnionStack,
    by: usize,
    push: bool,
    layout: &Layout,
    place: &str,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let size = stack.unions.len();
    let by = by.min(size);
    let kept = size - by;
    if push {
        for index in (0..kept).rev() {
            copy_union(&stack.unions[index + by], &stack.unions[index], layout, place, out)?;
        }
    } else {
        for index in 0..kept {
            copy_union(&stack.unions[index], &stack.unions[index + by], layout, place, out)?;
        }
    }
    let gone = if push { &stack.unions[..by] } else { &stack.unions[kept..] };
    for header in gone.iter().flatten() {
        out.push(Op::SetInvalid { header: *header });
    }
    // The number of unions in use rises up to the stack's size, or falls down to 0.
    let (count, end) = (stack.count, out.label());
    let (by, most) = (out.word_constant(by as u64), out.word_constant(size as u64));
    if push {
        out.push(Op::Add { d: count, a: count, b: by, cut: 0 });
        out.jump_with(end, |to| Op::JumpLess { a: count, b: most, to });
        out.push(Op::Copy { d: count, a: most, cut: 0 });
    } else {
        out.push(Op::Sub { d: count, a: count, b: by, cut: 0 });
        // A count below 0 has wrapped around, so it is far above the size.
        out.jump_with(end, |to| Op::JumpNotLess { a: most, b: count, to });
        let none = out.word_constant(0);
        out.push(Op::Copy { d: count, a: none, cut: 0 });
    }
    out.bind(end);
    Ok(())
}

/// Emits code for a header, or for each header that an index can choose.
fn for_each(
    header: &Expr,
    scope: &Scope<'_>,
    out: &mut Emitter,
    mut emit: impl FnMut(u16, &mut Emitter) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    match resolve::header(header, scope)? {
        HeaderRef::One(header) => emit(header, out),
        HeaderRef::OneOf(index, headers) => {
            Expressions::new(out, scope.place)
                .for_each_choice(&index, &headers, |expressions, header| emit(*header, expressions.out))
        }
    }
}

/// Emits code for a header union, or for each union that an index can choose.
fn for_each_union(
    union: &Expr,
    scope: &Scope<'_>,
    out: &mut Emitter,
    mut emit: impl FnMut(&[u16], &mut Emitter) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    match resolve::union(union, scope)? {
        UnionRef::One(members) => emit(&members, out),
        UnionRef::OneOf(index, unions) => {
            Expressions::new(out, scope.place)
                .for_each_choice(&index, &unions, |expressions, members| emit(members, expressions.out))
        }
    }
}
