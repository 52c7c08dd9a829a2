//! Runs one target under libFuzzer, which derives inputs from their coverage.
//!
//! `make fuzz` builds and runs it, with the compiler flags that count coverage. The target's name is in the
//! environment, because libFuzzer reads the arguments.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::{TARGETS, Target};

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("TRIBUTARY_FUZZ_TARGET").unwrap_or_default();
    TARGETS.iter().find(|target| target.name == name).unwrap_or(&TARGETS[0])
}

fuzz_target!(|input: &[u8]| (CHOSEN.get_or_init(chosen).run)(input));
