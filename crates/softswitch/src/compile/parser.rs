//! The parser: each state becomes a piece of code that ends with jumps to the next states.

use std::collections::HashMap;

use super::emitter::{Emitter, Label};
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::headers;
use super::objects::Objects;
use super::primitive::{assign, assign_variable};
use super::resolve::Scope;
use super::term::{Binary, Term};
use super::transition::{Case, TransitionKey};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::json::{self, Call, ParseState, Transition};
use crate::program::{MAX_BITS, Note, Op, Standard, lines_for};

/// Compiles the parser. When it accepts a packet or fails, execution continues behind its code.
pub(super) fn compile(
    parser: &json::Parser,
    objects: &Objects<'_>,
    standard: &Standard,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let mut labels = HashMap::new();
    for state in &parser.parse_states {
        if labels.insert(state.name.as_str(), out.label()).is_some() {
            let place = format!("parser {}", parser.name);
            return Err(malformed(&place, format!("state {} is there twice", state.name)));
        }
    }
    let accept = out.label();
    let mut states = States { objects, labels, accept, no_match: standard.no_match };
    let begin = states.target(parser.init_state.as_deref(), &parser.name)?;
    out.jump(begin);
    for state in &parser.parse_states {
        states.state(state, out)?;
    }
    out.bind(accept);
    Ok(())
}

struct States<'a> {
    objects: &'a Objects<'a>,
    labels: HashMap<&'a str, Label>,
    accept: Label,
    no_match: u64,
}

impl States<'_> {
    fn target(&self, state: Option<&str>, place: &str) -> Result<Label, LoadError> {
        let Some(state) = state else { return Ok(self.accept) };
        let label = self.labels.get(state).copied();
        label.ok_or_else(|| malformed(place, format!("there is no parser state {state}")))
    }

    fn state(&mut self, state: &ParseState, out: &mut Emitter) -> Result<(), LoadError> {
        let place = format!("parser state {}", state.name);
        let scope = Scope { layout: self.objects.layout, locals: &[], place: &place, in_parser: true };
        out.bind(self.target(Some(&state.name), &place)?);
        self.objects.note(|| Note::State { name: state.name.clone() }, out);
        for call in &state.parser_ops {
            self.operation(call, &scope, out)?;
        }
        self.transitions(state, &scope, out)
    }

    fn operation(&self, call: &Call, scope: &Scope<'_>, out: &mut Emitter) -> Result<(), LoadError> {
        let place = scope.place;
        if call.op == "primitive" {
            let inner = call.parameters.first().and_then(|json| serde_json::from_value(json.clone()).ok());
            let inner: Call = inner.ok_or_else(|| malformed(place, "'primitive' without a primitive"))?;
            return self.objects.primitive(&inner, scope, &[], out);
        }
        let arguments = call.parameters.iter().map(|json| Expr::read(json, place));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        match (call.op.as_str(), arguments.as_slice()) {
            ("extract", [header]) => headers::extract(header, None, scope, out)?,
            ("extract_VL", [header, length]) => headers::extract(header, Some(length), scope, out)?,
            ("set", [target, value]) if is_variable(target, scope) => {
                assign_variable(target, value, scope, out)?;
            }
            ("set", [target, value]) => assign(target, value, scope, out)?,
            ("verify", [condition, error]) => {
                let (condition, error) = (Term::resolve(condition, scope)?, Term::resolve(error, scope)?);
                let good = out.label();
                Expressions::new(out, place).branch(&condition, true, good)?;
                let error = Expressions::new(out, place).word(&error, 32)?;
                out.push(Op::Fail { error });
                out.bind(good);
            }
            ("shift", [bytes]) => {
                let bits =
                    Term::binary(Binary::Mul, Term::resolve(bytes, scope)?, Term::number(Number::from(8)));
                let bits = Expressions::new(out, place).word(&bits, 32)?;
                out.push(Op::Advance { bits });
            }
            ("advance", [bits]) => {
                let bits = Term::resolve(bits, scope)?;
                let bits = Expressions::new(out, place).word(&bits, 32)?;
                out.push(Op::Advance { bits });
            }
            (op, _) => return Err(unsupported(place, format!("the parser operation '{op}'"))),
        }
        Ok(())
    }

    fn transitions(&self, state: &ParseState, scope: &Scope<'_>, out: &mut Emitter) -> Result<(), LoadError> {
        let key = TransitionKey::new(state, scope)?;
        // All cases form one statement, so that the key is computed only once.
        let mut cases = Expressions::new(out, scope.place);
        for case in &state.transitions {
            let to = self.target(case.next_state.as_deref(), scope.place)?;
            if case.kind.as_deref() == Some("parse_vset") {
                self.value_set(case, &key, to, scope.place, &mut cases)?;
                continue;
            }
            match key.case(case, scope)? {
                Case::Always => {
                    jump(to, cases.out);
                    return Ok(());
                }
                Case::If(condition) if cases.out.is_bound(to) => {
                    let next = cases.out.label();
                    cases.branch(&condition, false, next)?;
                    jump(to, cases.out);
                    cases.out.bind(next);
                }
                Case::If(condition) => cases.branch(&condition, true, to)?,
            }
        }
        let error = out.word_constant(self.no_match);
        out.push(Op::Fail { error });
        Ok(())
    }
}

impl States<'_> {
    /// Emits a jump to a state, which is taken if a value set contains the key.
    fn value_set(
        &self,
        case: &Transition,
        key: &TransitionKey,
        to: Label,
        place: &str,
        cases: &mut Expressions<'_>,
    ) -> Result<(), LoadError> {
        let name = case.value.as_deref().unwrap_or_default();
        let set = self.objects.document.parse_vsets.iter().position(|set| set.name == name);
        let set = set.ok_or_else(|| malformed(place, format!("there is no value set {name}")))? as u16;
        let Some((whole, bits)) = key.whole() else {
            let what = format!("a value set for a key that is empty or has more than {MAX_BITS} bits");
            return Err(unsupported(place, what));
        };
        let d;
        if let Some(key) = key.narrow() {
            let key = cases.word(key, 64)?;
            d = cases.out.new_word();
            cases.out.push(Op::InSet { d, set, key });
        } else {
            let key = cases.whole_lines(&whole, bits)?;
            d = cases.out.new_word();
            cases.out.push(Op::WideInSet { d, set, key, n: lines_for(bits) as u8 });
        }
        let (zero, next) = (cases.out.word_constant(0), cases.out.label());
        cases.out.jump_with(next, |to| Op::JumpEqual { a: d, b: zero, to });
        jump(to, cases.out);
        cases.out.bind(next);
        Ok(())
    }
}

/// Returns true if the target is a field of variable length.
fn is_variable(target: &Expr, scope: &Scope<'_>) -> bool {
    let Expr::Field(header, field) = target else { return false };
    scope.layout.field(header, field, scope.place).is_ok_and(|slot| slot.length.is_some())
}

/// Emits a jump to a state. Only jumps back can form a loop, so only jumps back are counted.
fn jump(to: Label, out: &mut Emitter) {
    if out.is_bound(to) {
        out.push(Op::Visit);
    }
    out.jump(to);
}
