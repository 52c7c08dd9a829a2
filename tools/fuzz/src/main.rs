//! `make fuzz`: builds the engine, runs targets in it, and reports the findings.

mod campaign;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use tributary_fuzz::{TARGETS, Target, check, corpus_folder, seeds_of};

/// Fuzzes the parsers of all input from outside, guided by coverage
#[derive(Debug, Parser)]
struct Arguments {
    /// Targets: all unless some are named
    #[arg(long, value_delimiter = ',')]
    target: Vec<String>,

    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Stop after this number of inputs for each target; 0 runs none
    #[arg(long, default_value_t = 0)]
    executions: u64,

    /// Run one target on this input, without the engine
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Write the seeds into the corpus again
    #[arg(long)]
    seeds: bool,

    /// Show the targets
    #[arg(long)]
    list: bool,
}

fn asked(names: &[String]) -> Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let find = |name: &String| {
        let target = TARGETS.iter().find(|target| target.name == name);
        target.with_context(|| format!("there is no target {name}: --list shows them"))
    };
    names.iter().map(find).collect()
}

fn main() -> Result<ExitCode> {
    if let Some(mut compiler) = campaign::compiler() {
        return Err(compiler.exec().into());
    }
    let arguments = Arguments::parse();
    let targets = asked(&arguments.target)?;
    if arguments.list {
        targets.iter().for_each(|target| println!("{:12}{}", target.name, target.about));
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.seeds {
        return write_seeds(&targets).map(|()| ExitCode::SUCCESS);
    }
    if let Some(file) = &arguments.replay {
        return replay(&targets, file);
    }
    campaign::run(&targets, arguments.seconds, arguments.executions)
}

fn write_seeds(targets: &[&Target]) -> Result<()> {
    for target in targets {
        let folder = corpus_folder().join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, seed) in seeds_of(target) {
            fs::write(folder.join(name), seed)?;
        }
    }
    Ok(())
}

fn replay(targets: &[&Target], file: &PathBuf) -> Result<ExitCode> {
    let [target] = targets else { bail!("which target? --target says it") };
    let input = fs::read(file).with_context(|| file.display().to_string())?;
    Ok(match check(target, &input) {
        Ok(()) => {
            println!("{}: nothing is wrong with this input of {} bytes", target.name, input.len());
            ExitCode::SUCCESS
        }
        Err(finding) => {
            println!("{finding}");
            ExitCode::FAILURE
        }
    })
}
