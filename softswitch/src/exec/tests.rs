//! Compares the two ways in which the inner loop is compiled.

use std::sync::Arc;

use proptest::prelude::*;

use super::has_vectors;
use crate::{Outputs, Pipeline, Switch};

/// A program whose packets carry wide operands and return results.
const JSON: &str = include_str!("../../tests/programs/constructs.json");
const P4INFO: &str = include_str!("../../tests/programs/constructs.p4info.txtpb");

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
