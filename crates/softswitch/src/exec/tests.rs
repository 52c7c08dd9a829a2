//! Compares the two compiled versions of the inner loop, and joined steps on neighbouring registers
//! with single steps.

use std::sync::Arc;

use proptest::prelude::*;

use super::{MachineState, Packet};
use crate::processor::has_vectors;
use crate::program::{LIMBS, Line, Op, Program};
use crate::{Outputs, Pipeline, Switch};

/// A program whose packets carry wide operands and return results.
const JSON: &str = include_str!("../../tests/programs/constructs.json");
const P4INFO: &str = include_str!("../../tests/programs/constructs.p4info.txtpb");

/// A program that adds to registers, of up to 64 lanes each.
const ADDING_JSON: &str = include_str!("../../../../p4/build/256/tributary.json");
const ADDING_P4INFO: &str = include_str!("../../../../p4/build/256/tributary.p4info.txtpb");
/// Number of lines in two cells of that program.
const LINES: usize = 8;

/// Code that works on two neighbouring registers.
struct Series {
    code: Vec<Op>,
    /// The first register, and the word with the index of a cell.
    register: u16,
    index: u16,
    /// The first line of the packet's values, and the first line for a register's old contents.
    first: u16,
    held: Option<u16>,
}

impl Series {
    /// Finds the program's additions to registers.
    fn additions(program: &Program) -> Self {
        let is_first = |op: &Op| matches!(op, Op::LanesAddToRegister { more: 1, .. });
        let at = program.code.iter().position(is_first).expect("the program adds to neighbours");
        let code = program.code[at..at + 6].to_vec();
        let [Op::LanesAddToRegister { d, register, index, .. }, Op::LanesAdd { d: first, .. }, ..] = code[..]
        else {
            unreachable!()
        };
        Self { code, register, index, first, held: Some(d) }
    }

    /// Finds the program's writes of values to registers.
    fn writes(program: &Program) -> Self {
        let is_first = |op: &Op| matches!(op, Op::WideRegisterWrite { more: 1, .. });
        let at = program.code.iter().position(is_first).expect("the program writes to neighbours");
        let code = program.code[at..at + 2].to_vec();
        let Op::WideRegisterWrite { a: first, register, index, .. } = code[0] else { unreachable!() };
        Self { code, register, index, first, held: None }
    }

    /// Returns the code with single steps instead of the joined one.
    fn stepwise(&self) -> Vec<Op> {
        let step = |op: &Op| match *op {
            Op::LanesAddToRegister { d, register, index, .. } => Op::WideRegisterRead { d, register, index },
            Op::WideRegisterWrite { a, register, index, .. } => {
                Op::WideRegisterWrite { a, register, index, more: 0 }
            }
            other => other,
        };
        self.code.iter().map(step).collect()
    }

    /// Runs code on cells with the contents `held`, and on a packet's lines with the contents
    /// `own`.
    /// Returns the cells, and the packet's lines.
    fn run(
        &self,
        mut program: Program,
        code: Vec<Op>,
        index: u64,
        vectors: bool,
        held: &[Line],
        own: &[Line],
    ) -> [Vec<Line>; 2] {
        program.code = [code, vec![Op::End]].concat();
        let mut state = MachineState::new(&program);
        state.vectors &= vectors;
        state.set(self.index, index);
        let first = usize::from(self.first);
        state.lines[first..first + LINES].copy_from_slice(own);
        let registers = [self.register, self.register + 1].map(usize::from);
        for (register, held) in registers.into_iter().zip(held.chunks(LINES / 2)) {
            state.registers.set(register, index, held.as_flattened());
        }
        state.run(&program, &mut Packet::new(&[]), 0);
        let cells = registers.into_iter().filter_map(|register| state.registers.lines(register, index));
        let mut lines = state.lines[first..first + LINES].to_vec();
        let kept = self.held.map_or(0..0, |held| usize::from(held)..usize::from(held) + LINES / 2);
        lines.extend_from_slice(&state.lines[kept]);
        [cells.flatten().copied().collect(), lines]
    }
}

fn lines() -> impl Strategy<Value = [Line; LINES]> {
    let limb = prop_oneof![any::<u64>(), Just(u64::MAX), Just(0x8000_0000_8000_0000)];
    prop::array::uniform8(prop::array::uniform8(limb))
}

proptest! {
    #[test]
    fn neighbouring_registers_at_once_are_like_one_by_one(
        held in lines(),
        own in lines(),
        index in prop_oneof![0_u64..4096, Just(4096), Just(u64::MAX)],
        vectors in any::<bool>(),
    ) {
        let program = || Pipeline::load_text(ADDING_JSON, ADDING_P4INFO).unwrap().program;
        let lane = |line: &[Line], at: usize| (line.as_flattened()[at / 2] >> (at % 2 * 32)) as u32;
        for series in [Series::additions(&program()), Series::writes(&program())] {
            let at_once = series.run(program(), series.code.clone(), index, vectors, &held, &own);
            let stepwise = series.run(program(), series.stepwise(), index, vectors, &held, &own);
            prop_assert_eq!(&at_once, &stepwise);
            let [cells, _] = at_once;
            prop_assert_eq!(cells.is_empty(), index >= 4096);
            for at in 0..cells.len() * 2 * LIMBS {
                let added = series.held.map_or(0, |_| lane(&held, at));
                prop_assert_eq!(lane(&cells, at), added.wrapping_add(lane(&own, at)));
            }
        }
    }
}

proptest! {
    #[test]
    fn vectors_change_nothing_but_the_time(
        frames in prop::collection::vec((0_u8..9, prop::collection::vec(any::<u8>(), 40..70)), 1..20),
    ) {
        let pipeline = Arc::new(Pipeline::load_text(JSON, P4INFO).unwrap());
        let [mut fast, mut plain] = [(); 2].map(|()| Switch::new(pipeline.clone()));
        prop_assert_eq!(fast.state.vectors, has_vectors());
        plain.state.vectors = false;
        let [mut by_fast, mut by_plain] = [(); 2].map(|()| Outputs::new());
        for (test, mut frame) in frames {
            frame[0] = test;
            fast.process(1, &frame, &mut by_fast);
            plain.process(1, &frame, &mut by_plain);
        }
        prop_assert!(by_fast.iter().eq(by_plain.iter()));
        prop_assert!(!by_fast.is_empty());
    }
}

#[test]
fn copies_of_a_result_do_not_restore_values_that_egress_leaves_alone() {
    // The wide fields of a slice of 2,048 values take 8 KiB. Copies of a packet can share them,
    // because egress only adds a narrow header.
    let program = Pipeline::load_text(ADDING_JSON, ADDING_P4INFO).unwrap().program;
    assert!(program.field_lines > 0 && !program.egress_changes_lines);
}
