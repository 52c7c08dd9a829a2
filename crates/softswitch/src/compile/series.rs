//! Joins steps on neighbouring registers into one step.
//!
//! A program keeps a value that is wider than a field in several registers, and runs the same
//! instructions on each of them. Their cells are adjacent in memory. If one step covers all cells,
//! the processor prefetches the next cell while it works on the present one.

use crate::program::{Op, RegisterProgram};

/// Sets, in each instruction, the number of following steps that continue where it ends.
/// No instruction moves, so that jumps stay correct.
pub(super) fn join(code: &mut [Op], registers: &[RegisterProgram]) {
    for at in (0..code.len()).rev() {
        let further = match code[at..] {
            [Op::WideRegisterWrite { .. }, next, ..] => written_behind(code[at], next, registers),
            [addition @ Op::LanesAddToRegister { .. }, sum, _, next, next_sum, ..] => {
                added_behind([addition, sum], [next, next_sum], registers)
            }
            _ => None,
        };
        if let Op::WideRegisterWrite { more, .. } | Op::LanesAddToRegister { more, .. } = &mut code[at] {
            *more = further.and_then(|further| further.checked_add(1)).unwrap_or(0);
        }
    }
}

/// Returns the number of writes that follow `next`, if the write `next` continues where the write
/// `this` ends.
fn written_behind(this: Op, next: Op, registers: &[RegisterProgram]) -> Option<u8> {
    let Op::WideRegisterWrite { a, register, index, .. } = this else { return None };
    let Op::WideRegisterWrite { a: next_a, register: next_register, index: next_index, more } = next else {
        return None;
    };
    let lines = lines_before(register, next_register, registers)?;
    (index == next_index && usize::from(a) + lines == usize::from(next_a)).then_some(more)
}

/// Returns the number of additions that follow `next`, if the addition `next` continues where
/// `this` ends.
/// All additions must read their registers to the same lines, where only the contents of the last
/// register remain.
fn added_behind(this: [Op; 2], next: [Op; 2], registers: &[RegisterProgram]) -> Option<u8> {
    let [Op::LanesAddToRegister { d, register, index, .. }, Op::LanesAdd { d: sum, n, .. }] = this else {
        return None;
    };
    let [
        Op::LanesAddToRegister { d: next_d, register: next_register, index: next_index, more },
        Op::LanesAdd { d: next_sum, n: next_n, .. },
    ] = next
    else {
        return None;
    };
    let lines = lines_before(register, next_register, registers)?;
    let goes_on =
        (d, index, n) == (next_d, next_index, next_n) && usize::from(sum) + lines == usize::from(next_sum);
    goes_on.then_some(more)
}

/// Returns the number of lines in a cell of `register`, if the register `next` is its neighbour.
fn lines_before(register: u16, next: u16, registers: &[RegisterProgram]) -> Option<usize> {
    let (at, next) = (usize::from(register), usize::from(next));
    let (this, behind) = (registers.get(at)?, registers.get(next)?);
    (next == at + 1 && this.is_next_to(behind)).then_some(this.lines)
}
