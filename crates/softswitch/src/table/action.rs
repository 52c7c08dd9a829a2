//! Actions of entries, prepared for the inner loop.

use crate::program::{CodeIndex, Invocation, LIMBS, Line, TableProgram, limbs, lines_for};

/// An action with its arguments, in the form that the inner loop needs.
#[derive(Debug, Clone)]
pub(crate) struct BoundAction {
    /// Index among the table's actions.
    pub(crate) action: u16,
    /// The start of the action's code.
    pub(crate) code: CodeIndex,
    /// Arguments of up to 64 bits.
    pub(crate) words: Vec<u64>,
    /// Arguments of more than 64 bits.
    pub(crate) lines: Vec<Line>,
}

/// An action in both forms: as the control plane writes it and as the inner loop needs it.
#[derive(Debug, Clone)]
pub(crate) struct Action {
    pub(crate) invocation: Invocation,
    pub(crate) bound: BoundAction,
}

impl Action {
    /// Prepares an action of a table.
    pub(crate) fn new(invocation: Invocation, program: &TableProgram) -> Self {
        let action = &program.actions[invocation.action];
        let (mut words, mut lines) = (Vec::new(), Vec::new());
        for (bytes, bits) in invocation.arguments.iter().zip(&action.parameters) {
            let limbs = limbs(bytes);
            if *bits <= 64 {
                words.push(limbs.first().copied().unwrap_or(0));
            } else {
                let first = lines.len();
                lines.resize(first + usize::from(lines_for(*bits)), [0; LIMBS]);
                let cells = lines[first..].as_flattened_mut();
                cells.iter_mut().zip(limbs).for_each(|(cell, limb)| *cell = limb);
            }
        }
        let bound = BoundAction { action: invocation.action as u16, code: action.code, words, lines };
        Self { invocation, bound }
    }
}
