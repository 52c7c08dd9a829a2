//! Headers and fields that an expression names, perhaps by an index that is known at run time only.

use super::fault::{malformed, unsupported};
use super::layout::Slot;
use super::primitive::name;
use super::term::{Scope, Term};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;

/// The largest stack with an index known at run time: each of its headers gets instructions of its own.
const MAX_CHOICES: usize = 256;

/// A header.
pub(super) enum HeaderRef {
    One(u16),
    /// The one at an index.
    OneOf(Term, Vec<u16>),
}

/// The members of a header union.
pub(super) enum UnionRef {
    One(Vec<u16>),
    /// The union at an index.
    OneOf(Term, Vec<Vec<u16>>),
}

/// A field.
pub(super) enum FieldRef {
    One(Slot),
    /// The one at an index.
    OneOf(Term, Vec<Slot>),
}

/// Resolves a header.
pub(super) fn header(expr: &Expr, scope: &Scope<'_>) -> Result<HeaderRef, LoadError> {
    match expr {
        Expr::Op { op, left: Some(stack), right: index, .. } if op == "dereference_header_stack" => {
            let stack = scope.layout.stack(name(stack, "header_stack", scope.place)?, scope.place)?;
            let headers: Vec<u16> = scope.layout.stack_headers(stack).collect();
            Ok(match choice(index, headers, scope)? {
                Choice::Known(header) => HeaderRef::One(header),
                Choice::OneOf(index, headers) => HeaderRef::OneOf(index, headers),
            })
        }
        Expr::Op { op, left: Some(of), right: member, .. } if op == "access_union_header" => {
            let member = position(member, scope)?;
            let missing = || malformed(scope.place, format!("a header union has no member number {member}"));
            let header = |members: &Vec<u16>| members.get(member).copied().ok_or_else(missing);
            Ok(match union(of, scope)? {
                UnionRef::One(members) => HeaderRef::One(header(&members)?),
                UnionRef::OneOf(index, unions) => {
                    HeaderRef::OneOf(index, unions.iter().map(header).collect::<Result<_, _>>()?)
                }
            })
        }
        // p4c's way to write the last header of a stack.
        Expr::StackField(stack, field) if field == "last" => {
            let stack = scope.layout.stack(stack, scope.place)?;
            let last = Term::last_of(scope.layout.stack_list[usize::from(stack)].count);
            Ok(HeaderRef::OneOf(last, scope.layout.stack_headers(stack).collect()))
        }
        other => {
            // Whole structs of metadata are assigned in the same way.
            let name = name(other, "header", scope.place)?;
            scope.layout.header(name, scope.place).map(|header| HeaderRef::One(header.index))
        }
    }
}

/// Resolves a header union.
pub(super) fn union(expr: &Expr, scope: &Scope<'_>) -> Result<UnionRef, LoadError> {
    match expr {
        Expr::Op { op, left: Some(stack), right: index, .. } if op == "dereference_union_stack" => {
            let name = name(stack, "header_union_stack", scope.place)?;
            let unions = scope.layout.union_stack(name, scope.place)?.unions.clone();
            Ok(match choice(index, unions, scope)? {
                Choice::Known(members) => UnionRef::One(members),
                Choice::OneOf(index, unions) => UnionRef::OneOf(index, unions),
            })
        }
        other => {
            let name = name(other, "header_union", scope.place)?;
            Ok(UnionRef::One(scope.layout.union(name, scope.place)?.to_vec()))
        }
    }
}

/// Resolves the operands of `access_field`: a header, and the field's position in it.
pub(super) fn fields(of: Option<&Expr>, field: &Expr, scope: &Scope<'_>) -> Result<FieldRef, LoadError> {
    let of = of.ok_or_else(|| malformed(scope.place, "'access_field' has no header"))?;
    let position = position(field, scope)?;
    let slot = |header: u16| scope.layout.field_at(header, position, scope.place);
    Ok(match header(of, scope)? {
        HeaderRef::One(header) => FieldRef::One(slot(header)?),
        HeaderRef::OneOf(index, headers) => {
            FieldRef::OneOf(index, headers.into_iter().map(slot).collect::<Result<_, _>>()?)
        }
    })
}

/// Resolves a field that can be written.
pub(super) fn target(expr: &Expr, scope: &Scope<'_>) -> Result<FieldRef, LoadError> {
    match expr {
        Expr::Field(header, field) if field != "$valid$" => {
            scope.layout.field(header, field, scope.place).map(FieldRef::One)
        }
        Expr::Op { op, left, right, .. } if op == "access_field" => fields(left.as_deref(), right, scope),
        other => Err(unsupported(scope.place, format!("writing to {other:?}"))),
    }
}

enum Choice<T> {
    Known(T),
    OneOf(Term, Vec<T>),
}

fn choice<T>(index: &Expr, mut all: Vec<T>, scope: &Scope<'_>) -> Result<Choice<T>, LoadError> {
    let index = Term::resolve(index, scope)?;
    if let Some(known) = index.constant() {
        let known = known.to_u64().and_then(|known| usize::try_from(known).ok());
        let known = known.filter(|known| *known < all.len());
        let known = known.ok_or_else(|| malformed(scope.place, "an index is behind its stack's end"))?;
        return Ok(Choice::Known(all.swap_remove(known)));
    }
    if all.len() > MAX_CHOICES {
        let what = format!("an index known at run time only, of a stack of more than {MAX_CHOICES}");
        return Err(unsupported(scope.place, what));
    }
    Ok(Choice::OneOf(index, all))
}

fn position(expr: &Expr, scope: &Scope<'_>) -> Result<usize, LoadError> {
    let number = match expr {
        Expr::Const(number) => Number::to_u64(number).and_then(|number| usize::try_from(number).ok()),
        _ => None,
    };
    number.ok_or_else(|| malformed(scope.place, "a position is not a number"))
}
