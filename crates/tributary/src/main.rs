//! The program `tributary`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tributary::main()
}
