//! Runs targets in the engine, one after the other, and prints a table of the results.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use tributary_fuzz::{Target, corpus_folder};

/// Compiler flags that count the branches taken and trace comparisons.
///
/// They are LLVM's options, which the stable compiler passes on; cargo-fuzz uses the same flags. Only the
/// workspace's crates are built with them. If tokio and serde_json had them, too, each input would take
/// several times longer.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The memory limit of a whole run in MiB, and the time limit for one input in seconds.
const MOST_MEMORY: u32 = 1024;
const MOST_SECONDS: u32 = 10;
/// The words of those lines of libFuzzer's output that are shown. Other lines report single inputs.
const WORTH_A_LINE: [&str; 3] = ["pulse", "INITED", "DONE"];

/// The results of one target.
struct Row {
    name: &'static str,
    executions: u64,
    seconds: f64,
    /// Number of branches that were taken.
    coverage: String,
    /// Files with inputs on which the target panicked.
    findings: Vec<PathBuf>,
}

/// Runs each target for `seconds`, or until it has run `executions` inputs.
pub(crate) fn run(targets: &[&'static Target], seconds: u64, executions: u64) -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let engine = build(&root)?;
    let rows = targets
        .iter()
        .map(|target| fuzz(&engine, target, seconds, executions))
        .collect::<Result<Vec<_>>>()?;
    println!("{}", table(&rows));
    let is_fine = rows.iter().all(|row| row.findings.is_empty());
    Ok(if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns cargo's target folder, which contains this program.
fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).context("a program without a folder")?;
    Ok(folder.to_owned())
}

/// The variable that is set when cargo calls this program as the compiler.
const COMPILES: &str = "TRIBUTARY_FUZZ_COMPILES";

/// Returns the compiler's command with flags that count coverage, for the crate that cargo compiles.
///
/// Returns `None` if cargo did not call this program as the compiler.
pub(crate) fn compiler() -> Option<Command> {
    std::env::var_os(COMPILES)?;
    let mut called = std::env::args_os().skip(1);
    let mut compiler = Command::new(called.next()?);
    compiler.args(called).args(COVERAGE);
    Some(compiler)
}

/// Builds the engine.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    println!("Building the engine: some minutes the first time.");
    let folder = target_folder()?.join("fuzz");
    let built = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--locked", "--profile", "fuzz", "-p", "tributary-fuzz", "--features", "engine"])
        .args(["--bin", "engine"])
        .env("RUSTC_WORKSPACE_WRAPPER", std::env::current_exe()?)
        .env(COMPILES, "1")
        .env("CARGO_TARGET_DIR", &folder)
        .status()
        .context("cargo")?;
    ensure!(built.success(), "the engine was not built: it needs a C++ compiler, see tools/fuzz/README.md");
    Ok(folder.join("fuzz").join("engine"))
}

fn fuzz(engine: &Path, target: &Target, seconds: u64, executions: u64) -> Result<Row> {
    let folder = target_folder()?.join("fuzz");
    // Inputs with new coverage are kept for the next run, but not in the repository.
    let (kept, found) = (folder.join("corpus").join(target.name), folder.join("findings").join(target.name));
    fs::create_dir_all(&kept)?;
    fs::create_dir_all(&found)?;
    let before = files_in(&found)?;
    let begin = Instant::now();
    let mut command = Command::new(engine);
    command
        .env("TRIBUTARY_FUZZ_TARGET", target.name)
        .args([format!("-max_total_time={seconds}"), format!("-max_len={}", target.max_len)])
        .args([format!("-rss_limit_mb={MOST_MEMORY}"), format!("-timeout={MOST_SECONDS}")])
        .args([format!("-artifact_prefix={}/", found.display()), "-print_final_stats=1".to_owned()])
        .args((executions > 0).then(|| format!("-runs={executions}")))
        .args([kept, corpus_folder().join(target.name)])
        .stderr(Stdio::piped());
    let mut running = command.spawn().with_context(|| engine.display().to_string())?;
    let Some(told) = running.stderr.take() else { bail!("the engine says nothing") };
    let mut row =
        Row { name: target.name, executions: 0, seconds: 0.0, coverage: String::new(), findings: Vec::new() };
    let mut last_words = Vec::new();
    for line in BufReader::new(told).lines() {
        let line = String::from_utf8_lossy(line?.as_bytes()).into_owned();
        row.listen(&line);
        if WORTH_A_LINE.iter().any(|word| line.contains(word)) {
            println!("{:12}{line}", target.name);
        }
        last_words.push(line);
    }
    let ended = running.wait()?;
    row.seconds = begin.elapsed().as_secs_f64();
    row.findings = files_in(&found)?.into_iter().filter(|file| !before.contains(file)).collect();
    for file in &row.findings {
        println!("{}: FOUND {}", target.name, file.display());
        println!("    once more: make fuzz ARGS=\"--target {} --replay {}\"", target.name, file.display());
    }
    if !ended.success() {
        let from = last_words.iter().position(|line| line.contains("panicked") || line.contains("ERROR"));
        last_words.iter().skip(from.unwrap_or(0)).take(12).for_each(|line| println!("    {line}"));
        ensure!(!row.findings.is_empty(), "{}: the engine has ended with {ended}", target.name);
    }
    Ok(row)
}

impl Row {
    /// Reads figures from a line of libFuzzer's output.
    fn listen(&mut self, line: &str) {
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            self.executions = number.trim().parse().unwrap_or(0);
        }
        if let Some((executions, rest)) = line.strip_prefix('#').and_then(|line| line.split_once(['\t', ' ']))
        {
            self.executions = executions.parse().unwrap_or(self.executions).max(self.executions);
            let mut words = rest.split_whitespace().skip_while(|word| *word != "cov:");
            self.coverage = words.nth(1).map_or_else(|| self.coverage.clone(), str::to_owned);
        }
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(["target", "executions", "a second", "branches", "findings"]);
    for row in rows {
        let rate = row.executions as f64 / row.seconds.max(0.001);
        table.add_row([
            row.name.to_owned(),
            row.executions.to_string(),
            format!("{rate:.0}"),
            row.coverage.clone(),
            row.findings.len().to_string(),
        ]);
    }
    table
}
