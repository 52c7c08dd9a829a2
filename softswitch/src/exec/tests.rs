//! Compares the two ways in which the inner loop is compiled, and additions to registers with their single steps.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Packet, State, has_vectors};
use crate::program::{LIMBS, Line, Op, Program};
use crate::{Outputs, Pipeline, Switch};

/// A program whose packets carry wide operands and return results.
const JSON: &str = include_str!("../../tests/programs/constructs.json");
const P4INFO: &str = include_str!("../../tests/programs/constructs.p4info.txtpb");

/// A program that adds to registers, 32 lanes at a time.
const ADDING_JSON: &str = include_str!("../../../p4/build/32/tributary.json");
const ADDING_P4INFO: &str = include_str!("../../../p4/build/32/tributary.p4info.txtpb");

/// An addition to a register out of that program: in one pass, and in its steps.
fn additions() -> [Program; 2] {
    [true, false].map(|in_one_pass| {
        let mut program = Pipeline::load_text(ADDING_JSON, ADDING_P4INFO).unwrap().program;
        let joined = |op: &Op| matches!(op, Op::LanesAddToRegister { .. });
        let at = program.code.iter().position(joined).expect("the program adds to a register");
        let [first, add, write] = *program.code[at..].first_chunk().unwrap();
        let Op::LanesAddToRegister { d, register, index } = first else { unreachable!() };
        let read = Op::WideRegisterRead { d, register, index };
        program.code = vec![if in_one_pass { first } else { read }, add, write, Op::End];
        program
    })
}

fn lines() -> impl Strategy<Value = [Line; 2]> {
    let limb = prop_oneof![any::<u64>(), Just(u64::MAX), Just(0x8000_0000_8000_0000)];
    prop::array::uniform2(prop::array::uniform8(limb))
}

proptest! {
    #[test]
    fn an_addition_in_one_pass_is_that_of_its_steps(
        held in lines(),
        own in lines(),
        index in prop_oneof![0_u64..4096, Just(4096), Just(u64::MAX)],
        twice in any::<bool>(),
        vectors in any::<bool>(),
    ) {
        let [joined, stepwise] = additions().map(|program| {
            let [Op::LanesAddToRegister { d, register, index: at } | Op::WideRegisterRead { d, register, index: at },
                Op::LanesAdd { d: sum, n: 2, .. }, ..] = program.code[..] else { unreachable!() };
            let mut state = State::new(&program);
            state.vectors &= vectors;
            state.set(at, index);
            let (d, sum) = (usize::from(d), usize::from(sum));
            state.lines[d..d + 2].copy_from_slice(&own);
            state.lines[sum..sum + 2].copy_from_slice(&own);
            state.registers.set(register.into(), index, held.as_flattened());
            for _ in 0..=u8::from(twice) {
                state.run(&program, &mut Packet::new(&[]), 0);
            }
            let cell = state.registers.lines(register.into(), index).map(<[Line]>::to_vec);
            (cell, state.lines[d..d + 2].to_vec(), state.lines[sum..sum + 2].to_vec())
        });
        prop_assert_eq!(&joined, &stepwise);
        let lane = |line: &[Line], at: usize| (line.as_flattened()[at / 2] >> (at % 2 * 32)) as u32;
        if let (Some(cell), false) = (&joined.0, twice) {
            for at in 0..4 * LIMBS {
                prop_assert_eq!(lane(cell, at), lane(&held, at).wrapping_add(lane(&own, at)));
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
    // For a slice of 2,048 values these are 8 KiB for each copy. Egress adds a header, but a narrow one.
    let program = Pipeline::load_text(ADDING_JSON, ADDING_P4INFO).unwrap().program;
    assert!(program.field_lines > 0 && !program.egress_changes_lines);
}
