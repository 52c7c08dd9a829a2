//! Messages that a program logs: `log_msg`, and conditions that it asserts.

use std::cell::RefCell;

use super::emitter::Emitter;
use super::expression::Expressions;
use super::fault::{malformed, too_many, unsupported};
use super::resolve::{Scope, name};
use super::term::Term;
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::number::Number;
use crate::program::{Level, MAX_BITS, Message, Op, Place};

/// Compiles `log_msg`, `assert` and `assume`.
pub(super) fn primitive(
    op: &str,
    arguments: &[Expr],
    scope: &Scope<'_>,
    messages: &RefCell<Vec<Message>>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let place = scope.place;
    match (op, arguments) {
        ("log_msg", [text, values @ ..]) => {
            let text = name(text, "string", place)?;
            let values = match values {
                [Expr::List(values)] => values.as_slice(),
                [] => &[],
                _ => return Err(malformed(place, "'log_msg' has no list of values")),
            };
            let mut expressions = Expressions::new(out, place);
            let value = |value| {
                let value = Term::resolve(value, scope)?;
                Ok(match value.bound.bits {
                    ..=64 => Place::Word(expressions.word(&value, 64)?),
                    bits @ ..=MAX_BITS => Place::Lines(expressions.whole_lines(&value, bits)?),
                    _ => {
                        return Err(unsupported(
                            place,
                            format!("logging a value of more than {MAX_BITS} bits"),
                        ));
                    }
                })
            };
            let values = values.iter().map(value).collect::<Result<Vec<_>, LoadError>>()?;
            let text = text.split("{}").map(str::to_owned).collect();
            say(Message { level: Level::Info, text, values }, place, messages, out)
        }
        ("assert" | "assume", [condition]) => {
            let condition = Term::resolve(condition, scope)?;
            let good = out.label();
            let zero = Term::equal(condition, Term::number(Number::default()));
            Expressions::new(out, place).branch(&zero, false, good)?;
            let text = vec![format!("{place}: what the program {op}s is not so")];
            say(Message { level: Level::Error, text, values: Vec::new() }, place, messages, out)?;
            out.bind(good);
            Ok(())
        }
        _ => Err(malformed(place, format!("the primitive '{op}' has a wrong number of arguments"))),
    }
}

fn say(
    message: Message,
    place: &str,
    messages: &RefCell<Vec<Message>>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let mut messages = messages.borrow_mut();
    let index = u16::try_from(messages.len()).map_err(|_| too_many(place, "messages"))?;
    messages.push(message);
    out.push(Op::Say { message: index });
    Ok(())
}
