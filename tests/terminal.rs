//! What the commands say fits a terminal of 80 columns.

#![allow(clippy::unwrap_used)]

use std::process::Command;

const COLUMNS: usize = 80;

/// What `tributary` with these arguments prints on a terminal of 80 columns, without colours. `None`: nothing here makes
/// terminals.
fn on_a_terminal(arguments: &str) -> Option<String> {
    let line = format!("stty rows 24 cols {COLUMNS}; {} {arguments}", env!("CARGO_BIN_EXE_tributary"));
    let said =
        Command::new("script").args(["-qec", &line, "/dev/null"]).env("NO_COLOR", "1").output().ok()?;
    Some(String::from_utf8(said.stdout).unwrap().replace('\r', ""))
}

/// The names below "Commands:" in a help text.
fn commands(help: &str) -> Vec<String> {
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = below.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_fits() {
    let mut left = vec![String::new()];
    let mut seen = 0;
    while let Some(command) = left.pop() {
        let Some(help) = on_a_terminal(&format!("{command} --help")) else {
            return eprintln!("skipped: there is no `script` on the PATH");
        };
        let long = help.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(long, None, "`tributary{command} --help`");
        assert!(!help.contains('\u{1b}'), "`tributary{command} --help` has colours in spite of NO_COLOR");
        let below = commands(&help).into_iter().filter(|name| name != "help");
        left.extend(below.map(|name| format!("{command} {name}")));
        seen += 1;
    }
    assert!(seen > 30, "only {seen} commands were found");
}

#[test]
fn tables_and_sentences_fit() {
    for command in ["plan", "topology"] {
        let Some(text) = on_a_terminal(command) else {
            return eprintln!("skipped: there is no `script` on the PATH");
        };
        let long = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(long, None, "`tributary {command}`");
    }
}
