//! The parser: each state becomes a piece of code that ends with jumps to the next states.

use std::collections::HashMap;

use super::emitter::{Emitter, Label};
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::primitive::{Objects, assign, name};
use super::term::{Binary, Scope, Term};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::json::{self, Call, ParseState, Transition};
use crate::program::{Op, Standard};

/// The widest transition key, with each field padded to bytes.
const MAX_KEY_BYTES: u32 = 8;

/// Compiles the parser. The code goes on behind it when a packet is accepted or cannot be parsed.
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
            ("extract", [Expr::Object(kind, stack)]) if kind == "stack" => {
                out.push(Op::ExtractNext { stack: scope.layout.stack(stack, place)? });
            }
            ("extract", [header]) => {
                let header = scope.layout.wire_header(name(header, "regular", place)?, place)?;
                out.push(Op::Extract { header });
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
        let key = transition_key(state, scope)?;
        // One statement, so that the key is computed once for all cases.
        let mut cases = Expressions::new(out, scope.place);
        for case in &state.transitions {
            let to = self.target(case.next_state.as_deref(), scope.place)?;
            if case.kind.as_deref() == Some("parse_vset") {
                self.value_set(case, key.as_ref(), to, scope.place, &mut cases)?;
                continue;
            }
            let Some(condition) = case_condition(case, key.as_ref(), scope.place)? else {
                jump(to, cases.out);
                return Ok(());
            };
            if cases.out.is_bound(to) {
                let next = cases.out.label();
                cases.branch(&condition, false, next)?;
                jump(to, cases.out);
                cases.out.bind(next);
            } else {
                cases.branch(&condition, true, to)?;
            }
        }
        let error = out.word_constant(self.no_match);
        out.push(Op::Fail { error });
        Ok(())
    }
}

impl States<'_> {
    /// Goes to a state where a value set has the key.
    fn value_set(
        &self,
        case: &Transition,
        key: Option<&Term>,
        to: Label,
        place: &str,
        cases: &mut Expressions<'_>,
    ) -> Result<(), LoadError> {
        let name = case.value.as_deref().unwrap_or_default();
        let set = self.objects.document.parse_vsets.iter().position(|set| set.name == name);
        let set = set.ok_or_else(|| malformed(place, format!("there is no value set {name}")))? as u16;
        let key = key.ok_or_else(|| malformed(place, "a value set is compared with a key that is empty"))?;
        let key = cases.word(key, 64)?;
        let d = cases.out.new_word();
        cases.out.push(Op::InSet { d, set, key });
        let (zero, next) = (cases.out.word_constant(0), cases.out.label());
        cases.out.jump_with(next, |to| Op::JumpEqual { a: d, b: zero, to });
        jump(to, cases.out);
        cases.out.bind(next);
        Ok(())
    }
}

/// Emits a jump to a state. Only jumps back can form a loop, so only they are counted.
fn jump(to: Label, out: &mut Emitter) {
    if out.is_bound(to) {
        out.push(Op::Visit);
    }
    out.jump(to);
}

/// The fields of a state's key, each padded to bytes, as one number.
fn transition_key(state: &ParseState, scope: &Scope<'_>) -> Result<Option<Term>, LoadError> {
    let mut key: Option<Term> = None;
    let mut bytes = 0;
    for field in &state.transition_key {
        let field = Term::resolve(&Expr::read(field, scope.place)?, scope)?;
        let field_bytes = field.bound.bits.div_ceil(8).max(1);
        bytes += field_bytes;
        if field.bound.signed || bytes > MAX_KEY_BYTES {
            let what = format!("a transition key of more than {} bits", MAX_KEY_BYTES * 8);
            return Err(unsupported(scope.place, what));
        }
        key = Some(match key {
            None => field,
            Some(key) => {
                let by = Term::number(Number::from(u64::from(field_bytes) * 8));
                Term::binary(Binary::Or, Term::binary(Binary::Shl, key, by), field)
            }
        });
    }
    Ok(key)
}

/// The condition of a transition; `None`: it is always taken.
fn case_condition(case: &Transition, key: Option<&Term>, place: &str) -> Result<Option<Term>, LoadError> {
    let number = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        let number = Number::parse(text).filter(|number| number.to_u64().is_some());
        number.ok_or_else(|| malformed(place, format!("'{text}' is not a value of the transition key")))
    };
    let default = case.value.as_deref() == Some("default");
    match case.kind.as_deref() {
        Some("default") => return Ok(None),
        None if default => return Ok(None),
        None | Some("hexstr") => {}
        Some(kind) => return Err(unsupported(place, format!("a transition of type '{kind}'"))),
    }
    let key = key.cloned().ok_or_else(|| malformed(place, "a transition compares a key that is empty"))?;
    let value = Term::number(number(&case.value)?);
    if case.mask.is_none() {
        return Ok(Some(Term::equal(key, value)));
    }
    let mask = number(&case.mask)?;
    let masked = mask.to_u64().unwrap_or(0) & number(&case.value)?.to_u64().unwrap_or(0);
    let key = Term::binary(Binary::And, key, Term::number(mask));
    Ok(Some(Term::equal(key, Term::number(Number::from(masked)))))
}
