//! Tofino's controls behind the shim, in place of v1model's: the same tests apply to them.

use tributary_wire::SliceWidth;

/// The program of most tests: its folder under `p4/build`, and the width of its slices.
pub(crate) const PROGRAM: (&str, SliceWidth) = ("tna-32", SliceWidth::NARROWEST);
/// The programs for the tests of widths.
pub(crate) const PROGRAMS: [(&str, SliceWidth); 1] = [PROGRAM];
/// How many children a slot can tell apart.
pub(crate) const CHILDREN: u8 = 32;
