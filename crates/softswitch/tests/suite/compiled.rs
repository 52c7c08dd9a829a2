//! The checked-in compilations of the test programs.

use std::path::Path;

#[test]
fn the_compiled_programs_are_those_of_the_sources() {
    tributary_testkit::compiled::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs"));
}
