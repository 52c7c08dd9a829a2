//! Tofino's controls behind the shim, in place of v1model's: the same tests hold for them.

use tributary_wire::SliceWidth;

/// The program that most tests run: its folder under `p4/build`, and how wide its slices are.
pub(crate) const PROGRAM: (&str, SliceWidth) = ("tna-32", SliceWidth::NARROWEST);
/// The programs that the tests of widths run.
pub(crate) const PROGRAMS: [(&str, SliceWidth); 1] = [PROGRAM];
/// How many children a slot can tell apart.
pub(crate) const CHILDREN: u8 = 32;
