//! Checks that the commands' output fits into 80 columns, and checks the completions and the man pages.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use tributary_testkit::binary::TRIBUTARY;
use tributary_testkit::controller::PlainController;
use tributary_testkit::terminal::{self, COLUMNS, closed_pipe};

#[test]
fn the_help_of_every_command_fits() {
    let Some(seen) = terminal::commands_whose_help_fits(TRIBUTARY) else { return };
    assert!(seen > 30, "only {seen} commands were found");
}

#[test]
fn tables_and_sentences_fit() {
    for command in ["plan", "topology"] {
        let Some(text) = terminal::output(TRIBUTARY, command) else {
            return eprintln!("skipped: there is no `script` on the PATH");
        };
        let long = text.lines().find(|line| line.chars().count() > COLUMNS);
        assert_eq!(long, None, "`tributary {command}`");
    }
}

/// Returns commands that print and end. `controller` is the address of a controller.
fn commands_that_print(controller: &str) -> Vec<Vec<String>> {
    let commands =
        ["--version", "plan", "plan --json", "topology", "lab list", "lab list --json", "completions zsh"];
    let of_controller = ["jobs list", "jobs list --json", "counters", "counters --json", "doctor"];
    let asking = of_controller.map(|command| format!("{command} --controller {controller}"));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    commands.iter().copied().chain(asking.iter().map(String::as_str)).map(words).collect()
}

#[test]
fn a_reader_that_stops_is_no_error_and_a_full_disk_is_one_without_a_panic() {
    let controller = PlainController::start();
    for arguments in commands_that_print(&controller.api) {
        terminal::assert_survives_lost_output(TRIBUTARY, &arguments);
    }
    // If a command cannot write its error message, it still exits with status 1.
    let missing = Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(["plan", "/no/such/file"])
        .stderr(File::create("/dev/full").unwrap())
        .output();
    assert_eq!(missing.unwrap().status.code(), Some(1));
    // The reader closes the pipe while the command has nothing to print.
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_tributary"));
    doctor.args(["doctor", "--watch", "--interval", "1", "--controller", &controller.api]);
    let mut doctor = doctor.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(doctor.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    drop(said);
    assert!(doctor.wait().unwrap().success());
    for command in ["counters --watch", "counters --watch --json", "doctor --watch"] {
        let line = format!("{command} --controller {}", controller.api);
        let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        assert!(terminal::run(TRIBUTARY, &arguments, closed_pipe()).status.success(), "{command}");
    }
}

/// Returns bash's proposals for a command line that ends with an incomplete word.
fn proposed(script: &str, words: &[&str]) -> Option<Vec<String>> {
    let last = words.len() - 1;
    let line = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _tributary tributary '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words[last],
        words[last - 1],
    );
    let said = Command::new("bash").args(["--norc", "-c", &line]).output().ok()?;
    Some(String::from_utf8(said.stdout).unwrap().split_whitespace().map(str::to_owned).collect())
}

#[test]
fn shells_complete_commands_and_options() {
    let printed = |shell: &str| {
        let printed =
            Command::new(env!("CARGO_BIN_EXE_tributary")).args(["completions", shell]).output().unwrap();
        assert!(printed.status.success());
        String::from_utf8(printed.stdout).unwrap()
    };
    assert!(printed("zsh").starts_with("#compdef tributary"));
    assert!(printed("fish").contains("complete -c tributary"));
    let bash = printed("bash");
    let Some(below_lab) = proposed(&bash, &["tributary", "lab", "lo"]) else {
        return eprintln!("skipped: there is no `bash` on the PATH");
    };
    assert_eq!(below_lab, ["logs"]);
    assert_eq!(proposed(&bash, &["tributary", "lab", "up", "--sw"]).unwrap(), ["--switch"]);
    assert_eq!(proposed(&bash, &["tributary", "lab", "up", "--switch", "b"]).unwrap(), ["bmv2"]);
}

#[test]
fn every_command_that_is_shown_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let written = Command::new(env!("CARGO_BIN_EXE_tributary")).arg("man").arg(&pages).status().unwrap();
    assert!(written.success());
    for page in ["tributary", "tributary-lab", "tributary-lab-up", "tributary-agent", "tributary-jobs-create"]
    {
        let text = fs::read_to_string(pages.join(format!("{page}.1"))).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{text}");
    }
    for hidden in ["tributary-man", "tributary-lab-keep-slow"] {
        assert!(!pages.join(format!("{hidden}.1")).exists(), "{hidden}");
    }
}
