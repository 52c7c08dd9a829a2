//! `tributary demo` as a separate program, which builds in a third of the time of the whole command
//! line.

use std::process::ExitCode;

use clap::Parser;
use tributary_demo::DemoArgs;

#[derive(Debug, Parser)]
#[command(name = "tributary-demo", version)]
struct Cli {
    #[command(flatten)]
    args: DemoArgs,
}

fn main() -> ExitCode {
    tributary_demo::run(&Cli::parse().args)
}
