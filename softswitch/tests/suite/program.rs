//! The programs that this run of the suite is about. `../tna` has another one of these.
#![allow(dead_code, reason = "the benchmark uses a part")]

use tributary_wire::SliceWidth;

/// The program that most tests run: its folder under `p4/build`, and how wide its slices are.
pub(crate) const PROGRAM: (&str, SliceWidth) = ("256", SliceWidth::ETHERNET);
/// The programs that the tests of widths run, the narrowest first.
pub(crate) const PROGRAMS: [(&str, SliceWidth); 3] =
    [("32", SliceWidth::NARROWEST), PROGRAM, ("2048", SliceWidth::WIDEST)];
/// How many children a slot can tell apart.
pub(crate) const CHILDREN: u8 = 64;
