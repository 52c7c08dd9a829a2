//! Actions: sequences of primitives.

use super::digest;
use super::emitter::{Emitter, Label};
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::headers;
use super::layout::{STANDARD_METADATA, Slot, Storage};
use super::message;
use super::meter;
use super::objects::Objects;
use super::resolve::{self, FieldRef, Scope, name};
use super::term::Term;
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::json::{self, Call};
use crate::program::{DROP_PORT, Note, Op, Place, Word, lines_for};

/// An argument of a primitive.
type Argument = Expr;

impl Objects<'_> {
    /// Compiles an action's body. Execution continues behind its last instruction.
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

    /// Compiles `mark_to_drop`, which marks the packet's metadata, or a copy of it.
    ///
    /// If an action receives the metadata as a parameter, p4c makes a copy of it and copies it back
    /// later.
    fn mark_to_drop(
        &self,
        metadata: Option<&Argument>,
        scope: &Scope<'_>,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let copy = metadata.map(|metadata| name(metadata, "header", scope.place)).transpose()?;
        let Some(copy) = copy.filter(|name| *name != STANDARD_METADATA) else {
            out.push(Op::MarkToDrop);
            return Ok(());
        };
        for (field, value) in [("egress_spec", DROP_PORT), ("mcast_grp", 0)] {
            let slot = self.layout.field(copy, field, scope.place)?;
            Expressions::new(out, scope.place).assign(slot, &Term::number(Number::from(value)))?;
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
                let to = jump_target(to, labels, scope)?;
                jump(to, out);
            }
            ("_jump_if_zero", [value, to]) => {
                let target = jump_target(to, labels, scope)?;
                // A jump back must be counted, so it gets a separate jump instruction.
                let back = out.is_bound(target);
                let to = if back { out.label() } else { target };
                let past = out.label();
                let value = Term::resolve(value, scope)?;
                let is_zero = if value.bound.bits == 1 && !value.bound.signed {
                    Expressions::new(out, place).branch(&value, false, to)
                } else {
                    let nothing = Term::number(Number::default());
                    Expressions::new(out, place).branch(&Term::equal(value, nothing), true, to)
                };
                is_zero?;
                if back {
                    out.jump(past);
                    out.bind(to);
                    jump(target, out);
                }
                out.bind(past);
            }
            ("count", [counter, index]) => {
                let name = name(counter, "counter_array", place)?;
                let counter = self.counter(name, place)?;
                let index = index_word(index, scope, out)?;
                self.note(|| Note::Count { counter: name.to_owned(), index }, out);
                out.push(Op::Count { counter, index });
            }
            ("execute_meter", [meter, index, target]) => {
                let meter = meter::index(name(meter, "meter_array", place)?, self.document, place)?;
                let FieldRef::One(Slot { place: Storage::Word(d), bits, .. }) =
                    resolve::target(target, scope)?
                else {
                    return Err(unsupported(
                        place,
                        "a meter's result in a field that is wide or has an index",
                    ));
                };
                let index = index_word(index, scope, out)?;
                out.push(Op::Meter { d, meter, index, cut: (64 - bits) as u8 });
            }
            ("register_read", [target, register, index]) => {
                self.register_read(target, register, index, scope, out)?;
            }
            ("register_write", [register, index, value]) => {
                self.register_write(register, index, value, scope, out)?;
            }
            ("mark_to_drop", arguments) => self.mark_to_drop(arguments.first(), scope, out)?,
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
            (
                "add_header"
                | "remove_header"
                | "assign_header"
                | "assign_union"
                | "assign_header_stack"
                | "assign_union_stack"
                | "push"
                | "pop",
                arguments,
            ) => headers::primitive(&call.op, arguments, scope, out)?,
            ("assign_VL", [target, source]) => assign_variable(target, source, scope, out)?,
            ("modify_field_with_hash_based_offset", [target, base, calculation, size]) => {
                self.hash(target, [base, size], calculation, scope, out)?;
            }
            ("modify_field_rng_uniform", [target, low, high]) => random(target, low, high, scope, out)?,
            ("truncate", [bytes]) => {
                let bytes = index_word(bytes, scope, out)?;
                out.push(Op::Truncate { bytes });
            }
            ("log_msg" | "assert" | "assume", arguments) => {
                message::primitive(&call.op, arguments, scope, &self.messages, out)?;
            }
            (op, _) => return Err(unsupported(place, format!("the primitive '{op}'"))),
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
        let name = name(register, "register_array", place)?;
        let (register, bits) = self.register(name, place)?;
        let target = resolve::target(target, scope)?;
        let index = index_word(index, scope, out)?;
        self.note(|| Note::Read { name: name.to_owned(), register, index, bits }, out);
        let read = |target: &Slot, out: &mut Emitter| {
            out.push(match target.place {
                Storage::Word(d) if target.bits == bits => Op::RegisterRead { d, register, index },
                Storage::Lines(d) if target.bits == bits => Op::WideRegisterRead { d, register, index },
                _ => {
                    let problem =
                        format!("a register of {bits} bits is read into a field of {}", target.bits);
                    return Err(malformed(place, problem));
                }
            });
            Ok(())
        };
        match target {
            FieldRef::One(slot) => read(&slot, out),
            FieldRef::OneOf(at, slots) => {
                // The copy keeps the index while the code selects a target.
                let kept = out.new_word();
                out.push(Op::Copy { d: kept, a: index, cut: 0 });
                let read = |slot: &Slot, out: &mut Emitter| match slot.place {
                    Storage::Word(d) if slot.bits == bits => {
                        out.push(Op::RegisterRead { d, register, index: kept });
                        Ok(())
                    }
                    _ => Err(unsupported(place, "a register that is read into a wide field of a stack")),
                };
                Expressions::new(out, place)
                    .for_each_choice(&at, &slots, |expressions, slot| read(slot, expressions.out))
            }
        }
    }

    /// Compiles a hash. `bounds` are the lowest result and the number of different results.
    fn hash(
        &self,
        target: &Argument,
        bounds: [&Argument; 2],
        calculation: &Argument,
        scope: &Scope<'_>,
        out: &mut Emitter,
    ) -> Result<(), LoadError> {
        let place = scope.place;
        let name = name(calculation, "calculation", place)?;
        let known = self.document.calculations.iter().position(|known| known.name == name);
        let calculation = known.ok_or_else(|| malformed(place, format!("there is no calculation {name}")))?;
        let [base, size] = bounds.map(|bound| Term::resolve(bound, scope));
        let mut expressions = Expressions::new(out, place);
        let (base, size) = (expressions.word(&base?, 64)?, expressions.word(&size?, 64)?);
        let d = expressions.out.temporary_word();
        out.push(Op::Calculate { d, calculation: calculation as u16 });
        out.push(Op::Remainder { d, a: d, b: size });
        out.push(Op::Add { d, a: d, b: base, cut: 0 });
        assign_word(target, d, scope, out)
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
        let name = name(register, "register_array", place)?;
        let (register, bits) = self.register(name, place)?;
        let (index, value) = (Term::resolve(index, scope)?, Term::resolve(value, scope)?);
        let mut expressions = Expressions::new(out, place);
        let index = expressions.word(&index, 64)?;
        if bits <= 64 {
            let a = expressions.word(&value, bits)?;
            let written = || Note::Write { name: name.to_owned(), index, value: Place::Word(a), bits };
            self.note(written, out);
            out.push(Op::RegisterWrite { a, register, index });
        } else {
            let a = expressions.whole_lines(&value, bits)?;
            let written = || Note::Write { name: name.to_owned(), index, value: Place::Lines(a), bits };
            self.note(written, out);
            out.push(Op::WideRegisterWrite { a, register, index, more: 0 });
            out.join_addition_to_register(lines_for(bits));
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
    let slot = resolve::target(target, scope)?;
    let value = Term::resolve(value, scope)?;
    Expressions::new(out, scope.place).assign_to(&slot, &value)
}

/// Assigns a word that an instruction has computed.
fn assign_word(target: &Argument, word: Word, scope: &Scope<'_>, out: &mut Emitter) -> Result<(), LoadError> {
    let target = resolve::target(target, scope)?;
    // The copy keeps the word while the code selects a target.
    let kept = out.new_word();
    out.push(Op::Copy { d: kept, a: word, cut: 0 });
    Expressions::new(out, scope.place).assign_to(&target, &Term::slot(Slot::word(kept, 64)))
}

/// Compiles an assignment to a field of variable length, which sets its value and its length.
pub(super) fn assign_variable(
    target: &Argument,
    source: &Argument,
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let slot = |argument| match resolve::target(argument, scope)? {
        FieldRef::One(Slot { place: Storage::Lines(line), bits, length: Some(length), .. }) => {
            Ok((line, bits, length))
        }
        _ => Err(unsupported(scope.place, "an assignment of this field of variable length")),
    };
    let ((d, bits, to), (a, others, from)) = (slot(target)?, slot(source)?);
    if lines_for(bits) != lines_for(others) {
        return Err(malformed(scope.place, "the fields are of different greatest lengths"));
    }
    out.push(Op::WideCopy { d, a, n: lines_for(bits) as u8 });
    out.push(Op::Copy { d: to, a: from, cut: 0 });
    Ok(())
}

/// Compiles a random number from `low` to `high`.
fn random(
    target: &Argument,
    low: &Argument,
    high: &Argument,
    scope: &Scope<'_>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let (low, high) = (Term::resolve(low, scope)?, Term::resolve(high, scope)?);
    let mut expressions = Expressions::new(out, scope.place);
    let (low, high) = (expressions.word(&low, 64)?, expressions.word(&high, 64)?);
    let skip = expressions.out.label();
    let d = expressions.out.temporary_word();
    // BMv2 does not change the field if the range is empty.
    out.jump_with(skip, |to| Op::JumpLess { a: high, b: low, to });
    out.push(Op::Random { d, low, high });
    assign_word(target, d, scope, out)?;
    out.bind(skip);
    Ok(())
}

/// Returns a word that holds an index. It keeps 64 bits, so that an index beyond the end stays
/// beyond the end.
fn index_word(index: &Argument, scope: &Scope<'_>, out: &mut Emitter) -> Result<u16, LoadError> {
    let index = Term::resolve(index, scope)?;
    Expressions::new(out, scope.place).word(&index, 64)
}

/// Emits a jump to a primitive. Only jumps back can form a loop, so only jumps back are counted.
fn jump(to: Label, out: &mut Emitter) {
    if out.is_bound(to) {
        out.push(Op::Again);
    }
    out.jump(to);
}

fn jump_target(to: &Argument, labels: &[Label], scope: &Scope<'_>) -> Result<Label, LoadError> {
    let Expr::Const(index) = to else {
        return Err(unsupported(scope.place, "a jump to where an expression says"));
    };
    let index = index.to_u64().and_then(|index| usize::try_from(index).ok());
    let label = index.and_then(|index| labels.get(index));
    label.copied().ok_or_else(|| malformed(scope.place, "a jump goes beyond the action's end"))
}
