//! The programs under test in this run of the suite. `../tna.rs` replaces them by others.

use tributary_wire::SliceWidth;

/// The program of most tests: its folder under `p4/build`, and the width of its slices.
pub(crate) const PROGRAM: (&str, SliceWidth) = ("256", SliceWidth::ETHERNET);
/// The programs for the tests of widths, the narrowest first.
pub(crate) const PROGRAMS: [(&str, SliceWidth); 3] =
    [("32", SliceWidth::NARROWEST), PROGRAM, ("2048", SliceWidth::WIDEST)];
/// The number of children that a slot can distinguish.
pub(crate) const CHILDREN: u8 = 64;
