//! The `tributary` command line: argument parsing and wiring only.

fn main() {}
