//! Runs programs on a terminal, and programs whose output is lost.

use std::fs::File;
use std::io::{PipeWriter, pipe};
use std::process::{Command, Output, Stdio};

use crate::binary::{Program, stderr};

/// The width of the terminal. All output must fit it.
pub const COLUMNS: usize = 80;

/// Returns the output of a program on a terminal of 80 columns, without colours.
///
/// Returns `None` if this machine has no tool that makes terminals.
pub fn output(program: Program, arguments: &str) -> Option<String> {
    let line = format!("stty rows 24 cols {COLUMNS}; {} {arguments}", program.path().display());
    let said =
        Command::new("script").args(["-qec", &line, "/dev/null"]).env("NO_COLOR", "1").output().ok()?;
    Some(String::from_utf8(said.stdout).unwrap().replace('\r', ""))
}

/// Returns the names below "Commands:" in a help text.
fn commands(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = below.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Checks that the help of all commands of a program fits the terminal, and has no colours.
///
/// Returns the number of commands. Prints a message and returns `None` if this machine has no tool that makes
/// terminals.
pub fn commands_whose_help_fits(program: Program) -> Option<usize> {
    let name = program.name();
    let mut left = vec![String::new()];
    let mut seen = 0;
    while let Some(command) = left.pop() {
        let Some(help) = output(program, &format!("{command} --help")) else {
            eprintln!("skipped: there is no `script` on the PATH");
            return None;
        };
        let long = help.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(long, None, "`{name}{command} --help`");
        assert!(!help.contains('\u{1b}'), "`{name}{command} --help` has colours in spite of NO_COLOR");
        let below = commands(&help).into_iter().filter(|name| name != "help");
        left.extend(below.map(|name| format!("{command} {name}")));
        seen += 1;
    }
    Some(seen)
}

/// Runs a program with this standard output.
pub fn run(program: Program, arguments: &[String], stdout: impl Into<Stdio>) -> Output {
    let mut command = Command::new(program.path());
    command.args(arguments).env("NO_COLOR", "1").stdout(stdout).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap()
}

/// Returns a pipe whose reader is closed, as after `| head`.
pub fn closed_pipe() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// Checks the end of a command whose output is lost.
///
/// If the reader stops reading, the command must end with its usual status. On a full disk, it must fail
/// without a panic.
pub fn assert_survives_lost_output(program: Program, arguments: &[String]) {
    let before = run(program, arguments, Stdio::null()).status.code();
    let stopped = run(program, arguments, closed_pipe());
    assert_eq!(
        (stopped.status.code(), stderr(&stopped).contains("panicked")),
        (before, false),
        "{arguments:?}"
    );
    let full = run(program, arguments, File::create("/dev/full").unwrap());
    assert!(!full.status.success() && !stderr(&full).contains("panicked"), "{arguments:?}: {full:?}");
}
