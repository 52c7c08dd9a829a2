//! Resolves the names in expressions to terms, headers and fields.
//!
//! An expression may name a header by an index that is known only at run time. Such an index is a
//! term.

use super::fault::{malformed, unsupported};
use super::layout::{Layout, Slot, Storage};
use super::term::{Binary, Compare, Kind, Term, ValueRange};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::program::MAX_BITS;

/// The largest stack whose index may be known only at run time, because each of its headers needs
/// separate instructions.
const MAX_CHOICES: usize = 256;

/// The place in the program at which names are resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) layout: &'a Layout,
    /// The parameters of the action.
    pub(super) locals: &'a [Slot],
    /// The place in the program, for messages.
    pub(super) place: &'a str,
    /// True if the place is in the parser; only parsers can look ahead in a packet.
    pub(super) in_parser: bool,
}

/// A header.
pub(super) enum HeaderRef {
    One(u16),
    /// One of several headers. The term is the index that chooses it.
    OneOf(Term, Vec<u16>),
}

/// A header union, represented by its members.
pub(super) enum UnionRef {
    One(Vec<u16>),
    /// One of several unions. The term is the index that chooses it.
    OneOf(Term, Vec<Vec<u16>>),
}

/// A field.
pub(super) enum FieldRef {
    One(Slot),
    /// One of several fields. The term is the index that chooses it.
    OneOf(Term, Vec<Slot>),
}

impl Term {
    /// Resolves the names of an expression.
    pub(super) fn resolve(expr: &Expr, scope: &Scope<'_>) -> Result<Self, LoadError> {
        let place = scope.place;
        match expr {
            Expr::Const(number) => Ok(Self::number(number.clone())),
            Expr::Bool(value) => Ok(Self::number(Number::from(u64::from(*value)))),
            Expr::Field(header, field) => Ok(Self::slot(scope.layout.field(header, field, place)?)),
            Expr::StackField(stack, field) => {
                let stack = scope.layout.stack(stack, place)?;
                let mut headers = scope.layout.stack_headers(stack);
                let first = scope.layout.field_of(headers.start, field, place)?;
                if let Slot { place: Storage::Word(first), bits, signed: false, .. } = first {
                    let kind = Kind::Last { first, stack };
                    return Ok(Self { kind, bound: ValueRange::unsigned(bits) });
                }
                let fields = headers.try_fold(Vec::new(), |mut fields, header| {
                    fields.push(Self::slot(scope.layout.field_of(header, field, place)?));
                    Ok::<_, LoadError>(fields)
                })?;
                Ok(Self::at(&Self::last_of(scope.layout.stack_list[usize::from(stack)].count), fields))
            }
            Expr::UnionStackField(stack, member, field) => {
                let stack = scope.layout.union_stack(stack, place)?;
                let member = stack.member(member, place)?;
                let fields = stack.unions.iter().map(|union| {
                    Ok::<_, LoadError>(Self::slot(scope.layout.field_of(union[member], field, place)?))
                });
                Ok(Self::at(&Self::last_of(stack.count), fields.collect::<Result<_, _>>()?))
            }
            Expr::Local(index) => {
                let slot = scope.locals.get(*index);
                let slot = slot.ok_or_else(|| malformed(place, format!("there is no parameter {index}")))?;
                Ok(Self::slot(*slot))
            }
            Expr::Lookahead(offset, bits) => {
                if !scope.in_parser || !(1..=MAX_BITS / 2).contains(bits) {
                    return Err(unsupported(place, format!("a lookahead of {bits} bits")));
                }
                let offset = u16::try_from(*offset)
                    .map_err(|_| unsupported(place, format!("a lookahead of {offset} bits")))?;
                let kind = Kind::Lookahead { offset, bits: *bits };
                Ok(Self { kind, bound: ValueRange::unsigned(*bits) })
            }
            Expr::Object(kind, name) => Err(malformed(place, format!("the {kind} {name} is not a value"))),
            Expr::UnionStack(stack, _) => {
                Err(malformed(place, format!("the header union stack {stack} is not a value")))
            }
            Expr::List(_) => Err(malformed(place, "a list is not a value")),
            Expr::Op { op, cond, left, right } => {
                Self::resolve_operation(op, cond.as_deref(), left.as_deref(), right, scope)
            }
        }
    }

    fn resolve_operation(
        op: &str,
        cond: Option<&Expr>,
        left: Option<&Expr>,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Self, LoadError> {
        if let Some(term) = Self::resolve_special(op, left, right, scope)? {
            return Ok(term);
        }
        let right = Self::resolve(right, scope)?;
        let missing = || malformed(scope.place, format!("'{op}' has one operand too few"));
        let operand = |expr: Option<&Expr>| expr.ok_or_else(missing).and_then(|e| Self::resolve(e, scope));
        let compare = |compare, swap: bool, not: bool| {
            let left = operand(left)?;
            let (a, b) = if swap { (right.clone(), left) } else { (left, right.clone()) };
            let term = Self::compare(compare, a, b);
            Ok(if not { term.not() } else { term })
        };
        let binary = |op| Ok(Self::binary(op, operand(left)?, right.clone()));
        match op {
            "+" if left.is_none() => Ok(right),
            "-" if left.is_none() => Ok(Self::binary(Binary::Sub, Self::number(Number::default()), right)),
            "+" => binary(Binary::Add),
            "-" => binary(Binary::Sub),
            "*" => binary(Binary::Mul),
            "&" => binary(Binary::And),
            "|" => binary(Binary::Or),
            "^" => binary(Binary::Xor),
            "<<" => binary(Binary::Shl),
            ">>" => binary(Binary::Shr),
            // The result is -a - 1, as in two's complement of unlimited width.
            "~" => Ok(Self::binary(Binary::Xor, right, Self::number(Number::from(1).negated()))),
            "==" => compare(Compare::Equal, false, false),
            "!=" => compare(Compare::Equal, false, true),
            "<" => compare(Compare::Less, false, false),
            ">" => compare(Compare::Less, true, false),
            "<=" => compare(Compare::Less, true, true),
            ">=" => compare(Compare::Less, false, true),
            "and" => Ok(Self::truth(Kind::Both(Box::new(operand(left)?), Box::new(right)))),
            "or" => Ok(Self::truth(Kind::Either(Box::new(operand(left)?), Box::new(right)))),
            "not" => Ok(right.not()),
            "d2b" if right.bound == ValueRange::BIT => Ok(right),
            "d2b" => Ok(Self::compare(Compare::Equal, right, Self::number(Number::default())).not()),
            "b2d" => Ok(right),
            "?" => Ok(Self::choose(operand(cond)?, operand(left)?, right)),
            "two_comp_mod" => Self::wrapped(operand(left)?, &right, scope.place),
            "usat_cast" | "sat_cast" => Self::saturated(op, operand(left)?, &right, scope.place),
            _ => Err(unsupported(scope.place, format!("the operation '{op}'"))),
        }
    }

    /// Resolves operations whose operand is a header, a union or a stack.
    fn resolve_special(
        op: &str,
        left: Option<&Expr>,
        right: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Option<Self>, LoadError> {
        let name = || match right {
            Expr::Object(_, name) => Ok(name.as_str()),
            _ => Err(malformed(scope.place, format!("'{op}' needs a name"))),
        };
        let count = || {
            let stack = scope.layout.stack(name()?, scope.place)?;
            let count = scope.layout.stack_list[usize::from(stack)].count;
            Ok::<_, LoadError>(Self::slot(Slot::word(count, 16)))
        };
        let valid = |header: &u16| Self::slot(scope.layout.validity(*header));
        Ok(match op {
            "valid" => Some(match header(right, scope)? {
                HeaderRef::One(header) => valid(&header),
                HeaderRef::OneOf(index, headers) => Self::at(&index, headers.iter().map(valid).collect()),
            }),
            "valid_union" => {
                let any = |members: &[u16]| {
                    let members = members.iter().map(valid);
                    members
                        .reduce(|a, b| Self::truth(Kind::Either(Box::new(a), Box::new(b))))
                        .unwrap_or_else(|| Self::number(Number::default()))
                };
                Some(match union(right, scope)? {
                    UnionRef::One(members) => any(&members),
                    UnionRef::OneOf(index, unions) => {
                        Self::at(&index, unions.iter().map(|members| any(members)).collect())
                    }
                })
            }
            "access_field" => {
                let fields = fields(left, right, scope)?;
                Some(match fields {
                    FieldRef::One(slot) => Self::slot(slot),
                    FieldRef::OneOf(index, slots) => {
                        Self::at(&index, slots.into_iter().map(Self::slot).collect())
                    }
                })
            }
            "size_stack" => Some(count()?),
            "last_stack_index" => Some(Self::binary(Binary::Sub, count()?, Self::number(Number::from(1)))),
            _ => None,
        })
    }
}

/// Resolves a header.
pub(super) fn header(expr: &Expr, scope: &Scope<'_>) -> Result<HeaderRef, LoadError> {
    match expr {
        Expr::Op { op, left: Some(stack), right: index, .. } if op == "dereference_header_stack" => {
            let stack = scope.layout.stack(name(stack, "header_stack", scope.place)?, scope.place)?;
            let headers: Vec<u16> = scope.layout.stack_headers(stack).collect();
            Ok(match stack_element(index, headers, scope)? {
                StackElement::Known(header) => HeaderRef::One(header),
                StackElement::OneOf(index, headers) => HeaderRef::OneOf(index, headers),
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
        // p4c writes the last header of a stack in this form.
        Expr::StackField(stack, field) if field == "last" => {
            let stack = scope.layout.stack(stack, scope.place)?;
            let last = Term::last_of(scope.layout.stack_list[usize::from(stack)].count);
            Ok(HeaderRef::OneOf(last, scope.layout.stack_headers(stack).collect()))
        }
        other => {
            // Whole structs of metadata are assigned with the same primitive.
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
            Ok(match stack_element(index, unions, scope)? {
                StackElement::Known(members) => UnionRef::One(members),
                StackElement::OneOf(index, unions) => UnionRef::OneOf(index, unions),
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

/// An element of a stack. Either its index is a constant, or the packet's fields determine it.
enum StackElement<T> {
    Known(T),
    OneOf(Term, Vec<T>),
}

fn stack_element<T>(index: &Expr, mut all: Vec<T>, scope: &Scope<'_>) -> Result<StackElement<T>, LoadError> {
    let index = Term::resolve(index, scope)?;
    if let Some(known) = index.constant() {
        let known = known.to_u64().and_then(|known| usize::try_from(known).ok());
        let known = known.filter(|known| *known < all.len());
        let known = known.ok_or_else(|| malformed(scope.place, "an index is behind its stack's end"))?;
        return Ok(StackElement::Known(all.swap_remove(known)));
    }
    if all.len() > MAX_CHOICES {
        let what = format!("an index known at run time only, of a stack of more than {MAX_CHOICES}");
        return Err(unsupported(scope.place, what));
    }
    Ok(StackElement::OneOf(index, all))
}

fn position(expr: &Expr, scope: &Scope<'_>) -> Result<usize, LoadError> {
    let number = match expr {
        Expr::Const(number) => Number::to_u64(number).and_then(|number| usize::try_from(number).ok()),
        _ => None,
    };
    number.ok_or_else(|| malformed(scope.place, "a position is not a number"))
}

/// Returns the name of an object of a certain type.
pub(super) fn name<'a>(argument: &'a Expr, kind: &str, place: &str) -> Result<&'a str, LoadError> {
    match argument {
        Expr::Object(known, name) if known == kind => Ok(name),
        other => Err(malformed(place, format!("a {kind} is needed, not {other:?}"))),
    }
}
