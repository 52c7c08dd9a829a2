//! The checks of `make verify`.

use crate::setup::{Change, Setup};
use crate::slot::Bug;

/// Returns jobs of different kinds, and then one job for each bug.
pub fn everything() -> Vec<Setup> {
    let flat = Setup { window: 2, operations: vec![3], ..small() };
    let deep = Setup { spine: true, window: 1, operations: vec![2], ..flat.clone() };
    let mut setups = vec![
        flat.clone(),
        Setup { operations: vec![1, 1], ..flat.clone() },
        Setup { operations: vec![0; 4], ..flat.clone() },
        Setup { operations: vec![1], change: Change::Replan, ..flat.clone() },
        Setup { operations: vec![1], change: Change::Leave, ..flat },
        Setup { operations: vec![5], ..deep.clone() },
        Setup { window: 2, operations: vec![1], ..deep.clone() },
        Setup { operations: vec![1], change: Change::Replan, ..deep.clone() },
        Setup { change: Change::Leave, ..deep },
    ];
    setups.extend(Bug::ALL.map(planted));
    setups
}

/// Returns a small job that reveals this bug.
pub fn planted(bug: Bug) -> Setup {
    let change = if bug == Bug::SharedSlots { Change::Replan } else { Change::None };
    Setup { change, bug: Some(bug), ..small() }
}

/// Returns a job whose check takes less than a second.
///
/// It has one worker under a leaf, two workers under another leaf, three slices and one slot.
pub fn small() -> Setup {
    Setup {
        leaves: vec![1, 2],
        spine: false,
        window: 1,
        operations: vec![2],
        change: Change::None,
        bug: None,
    }
}
