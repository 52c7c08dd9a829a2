//! Actions: sequences of primitives.

use super::digest;
use super::emitter::{Emitter, Label};
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::field_list;
use super::layout::{Layout, Slot, Storage};
use super::meter;
use super::term::{Scope, Term};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::json::{self, Call};
use crate::program::{Arguments, MAX_BITS, Op, lines_for};

/// The objects that actions refer to by name.
#[derive(Debug)]
pub(super) struct Objects<'a> {
    pub(super) layout: &'a Layout,
    pub(super) document: &'a json::Document,
    pub(super) arguments: Arguments,
}

/// An argument of a primitive.
type Argument = Expr;

impl Objects<'_> {
    /// Index of a counter array that actions can count with.
    fn counter(&self, name: &str, place: &str) -> Result<u16, LoadError> {
        let mut indirect = self.document.counter_arrays.iter().filter(|counter| !counter.is_direct);
        let index = indirect.position(|counter| counter.name == name);
        index.map(|i| i as u16).ok_or_else(|| malformed(place, format!("there is no counter array {name}")))
    }

    /// Index and width of a register array.
    fn register(&self, name: &str, place: &str) -> Result<(u16, u32), LoadError> {
        let mut registers = self.document.register_arrays.iter().enumerate();
        let found = registers.find(|(_, register)| register.name == name);
        let (index, register) =
            found.ok_or_else(|| malformed(place, format!("there is no register array {name}")))?;
        Ok((index as u16, register.bitwidth as u32))
    }

    /// Index of the field list whose id is a primitive's argument.
    fn field_list(&self, id: &Argument, place: &str) -> Result<u16, LoadError> {
        let number = if let Expr::Const(number) = id { number.to_u64() } else { None };
        let id = number.ok_or_else(|| unsupported(place, "a field list that varies"))?;
        field_list::index(id, self.document, place)
    }

    /// Where the parameters of an action are.
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
            slots.push(Slot { place: at, bits });
        }
        Ok(slots)
    }

    /// Compiles an action's body; execution goes on behind its last instruction.
    pub(super) fn action(&self, action: &json::Action, out: &mut Emitter) -> Result<(), LoadError> {
        let locals = self.parameters(action)?;
        let place = format!("action {}", action.name);
        let scope = Scope { layout: self.layout, locals: &locals, place: &place, in_parser: false };
        // One label for each primitive, and one behind the last.
        let labels: Vec<Label> = (0..=action.primitives.len()).map(|_| out.label()).collect();
        for (primitive, label) in action.primitives.iter().zip(&labels) {
            out.bind(*label);
            self.primitive(primitive, &scope, &labels, out)?;
        }
        if let Some(end) = labels.last() {
            out.bind(*end);
        }
        Ok(())
    }

    /// Compiles one primitive. `labels` are the labels of the action's primitives.
    pub(super) fn primitive(
        &self,
        call: &Call,
        scope: &Scope<'_>,
        labels: &[Label],
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = scope.place;
        let arguments = call.parameters.iter().map(|json| Expr::read(json, place));
        let arguments = arguments.collect::<Result<Vec<Argument>, _>>()?;
        match (call.op.as_str(), arguments.as_slice()) {
            ("assign", [target, value]) => assign(target, value, scope, out)?,
            ("_jump", [to]) => {
                let to = jump_target(to, labels, scope, out)?;
                out.jump(to);
            }
            ("_jump_if_zero", [value, to]) => {
                let to = jump_target(to, labels, scope, out)?;
                let value = Term::resolve(value, scope)?;
                let is_zero = if value.bound.bits == 1 && !value.bound.signed {
                    Expressions::new(out, place).branch(&value, false, to)
                } else {
                    let nothing = Term::number(Number::default());
                    Expressions::new(out, place).branch(&Term::equal(value, nothing), true, to)
                };
                is_zero?;
            }
            ("count", [counter, index]) => {
                let counter = self.counter(name(counter, "counter_array", place)?, place)?;
                let index = index_word(index, scope, out)?;
                out.push(Op::Count { counter, index });
            }
            ("execute_meter", [meter, index, target]) => {
                let meter = meter::index(name(meter, "meter_array", place)?, self.document, place)?;
                let target = field(target, scope)?;
                let Storage::Word(d) = target.place else {
                    return Err(unsupported(place, format!("a meter's result in {} bits", target.bits)));
                };
                let index = index_word(index, scope, out)?;
                out.push(Op::Meter { d, meter, index, cut: (64 - target.bits) as u8 });
            }
            ("register_read", [target, register, index]) => {
                self.register_read(target, register, index, scope, out)?;
            }
            ("register_write", [register, index, value]) => {
                self.register_write(register, index, value, scope, out)?;
            }
            ("mark_to_drop", _) => out.push(Op::MarkToDrop),
            ("clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress", [session, list]) => {
                let (list, session) = (self.field_list(list, place)?, index_word(session, scope, out)?);
                out.push(Op::Clone { session, list });
            }
            ("resubmit", [list]) => out.push(Op::Resubmit { list: self.field_list(list, place)? }),
            // The receiver is always the controller.
            ("generate_digest", [_, list]) => {
                let id = if let Expr::Const(id) = list { id.to_u64() } else { None };
                let id = id.ok_or_else(|| unsupported(place, "a digest that varies"))?;
                out.push(Op::Digest { list: digest::index(id, self.document, place)? });
            }
            ("recirculate", [list]) => out.push(Op::Recirculate { list: self.field_list(list, place)? }),
            ("exit", []) => out.push(Op::End),
            ("no_op", []) => {}
            ("add_header" | "remove_header" | "assign_header" | "push" | "pop", arguments) => {
                self.header_primitive(&call.op, arguments, scope, out)?;
            }
            (op, _) => return Err(unsupported(place, format!("the primitive '{op}'"))),
        }
        Ok(())
    }

    fn header_primitive(
        &self,
        op: &str,
        arguments: &[Argument],
        scope: &Scope<'_>,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = scope.place;
        let header = |argument| self.layout.wire_header(name(argument, "header", place)?, place);
        match (op, arguments) {
            ("add_header", [target]) => out.push(Op::SetValid { header: header(target)? }),
            ("remove_header", [target]) => out.push(Op::SetInvalid { header: header(target)? }),
            ("assign_header", [target, source]) => {
                let (d, a) = (header(target)?, header(source)?);
                let shape = |header: u16| {
                    let format = &self.layout.formats[usize::from(header)];
                    (format.bytes, format.words, format.lines)
                };
                if shape(d) != shape(a) {
                    return Err(malformed(place, "the headers are of different types"));
                }
                out.push(Op::CopyHeader { d, a });
            }
            ("push" | "pop", [stack, by]) => {
                let stack = self.layout.stack(name(stack, "header_stack", place)?, place)?;
                let Expr::Const(by) = by else {
                    return Err(unsupported(place, format!("a '{op}' by a number that varies")));
                };
                let by = by.to_u64().unwrap_or(u64::MAX).min(u64::from(u16::MAX)) as u16;
                out.push(if op == "push" { Op::Push { stack, by } } else { Op::Pop { stack, by } });
            }
            _ => {
                return Err(malformed(
                    place,
                    format!("the primitive '{op}' has a wrong number of arguments"),
                ));
            }
        }
        Ok(())
    }

    fn register_read(
        &self,
        target: &Argument,
        register: &Argument,
        index: &Argument,
        scope: &Scope<'_>,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = scope.place;
        let (register, bits) = self.register(name(register, "register_array", place)?, place)?;
        let target = field(target, scope)?;
        let index = index_word(index, scope, out)?;
        match target.place {
            Storage::Word(d) if target.bits == bits => out.push(Op::RegisterRead { d, register, index }),
            Storage::Lines(d) if target.bits == bits => out.push(Op::WideRegisterRead { d, register, index }),
            _ => {
                let problem = format!("a register of {bits} bits is read into a field of {}", target.bits);
                return Err(malformed(place, problem));
            }
        }
        Ok(())
    }

    fn register_write(
        &self,
        register: &Argument,
        index: &Argument,
        value: &Argument,
        scope: &Scope<'_>,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = scope.place;
        let (register, bits) = self.register(name(register, "register_array", place)?, place)?;
        let (index, value) = (Term::resolve(index, scope)?, Term::resolve(value, scope)?);
        let mut expressions = Expressions::new(out, place);
        let index = expressions.word(&index, 64)?;
        if bits <= 64 {
            let a = expressions.word(&value, bits)?;
            out.push(Op::RegisterWrite { a, register, index });
        } else {
            let a = expressions.whole_lines(&value, bits)?;
            out.push(Op::WideRegisterWrite { a, register, index });
        }
        Ok(())
    }
}

/// Compiles an assignment to a field.
pub(super) fn assign(
    target: &Argument,
    value: &Argument,
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let slot = field(target, scope)?;
    let value = Term::resolve(value, scope)?;
    Expressions::new(out, scope.place).assign(slot, &value)
}

/// A field that can be written.
fn field(target: &Argument, scope: &Scope<'_>) -> Result<Slot, LoadError> {
    match target {
        Expr::Field(header, field) if field != "$valid$" => scope.layout.field(header, field, scope.place),
        other => Err(unsupported(scope.place, format!("writing to {other:?}"))),
    }
}

/// The name of an object of a certain type.
pub(super) fn name<'a>(argument: &'a Argument, kind: &str, place: &str) -> Result<&'a str, LoadError> {
    match argument {
        Expr::Object(known, name) if known == kind => Ok(name),
        other => Err(malformed(place, format!("a {kind} is needed, not {other:?}"))),
    }
}

/// A word that holds an index. One that is too large has to stay too large.
fn index_word(index: &Argument, scope: &Scope<'_>, out: &mut Emitter) -> Result<u16, LoadError> {
    let index = Term::resolve(index, scope)?;
    Expressions::new(out, scope.place).word(&index, 64)
}

fn jump_target(
    to: &Argument,
    labels: &[Label],
    scope: &Scope<'_>,
    out: &Emitter,
) -> Result<Label, LoadError> {
    let Expr::Const(index) = to else {
        return Err(unsupported(scope.place, "a jump to where an expression says"));
    };
    let index = index.to_u64().and_then(|index| usize::try_from(index).ok());
    let label = index.and_then(|index| labels.get(index));
    let label = label.ok_or_else(|| malformed(scope.place, "a jump goes beyond the action's end"))?;
    if out.is_bound(*label) {
        return Err(unsupported(scope.place, "a jump backwards"));
    }
    Ok(*label)
}
