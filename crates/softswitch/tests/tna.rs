//! Runs the suite again, with the program for Tofino as `p4/shim` adapts it to v1model.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod bmv2 {
    pub(crate) mod tables;
    pub(crate) mod traffic;
}
/// Tofino's controls behind the shim, in place of v1model's. The same tests apply to them.
mod program {
    use tributary_wire::SliceWidth;

    /// The program of most tests: its folder under `p4/build`, and the width of its slices.
    pub(crate) const PROGRAM: (&str, SliceWidth) = ("tna-32", SliceWidth::NARROWEST);
    /// The programs for the tests of widths.
    pub(crate) const PROGRAMS: [(&str, SliceWidth); 1] = [PROGRAM];
    /// The number of children that a slot can distinguish.
    pub(crate) const CHILDREN: u8 = 32;
}
mod shim {
    mod against_v1model;
    mod planted;
}
mod suite {
    #[macro_use]
    mod test_program;

    mod admission;
    mod allocation;
    mod control;
    mod engine;
    mod gradients;
    mod model;
    mod plain;
    mod results;
    mod robustness;
    pub(crate) mod support;
    mod widths;
}

use bmv2::{tables, traffic};
use suite::support;
