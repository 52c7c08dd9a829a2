//! `tributary-bench allreduce`: an all-reduce over the fabric beside other software.

mod args;
mod baseline;
mod gloo;
mod openmpi;
pub(crate) mod overlap;
mod own_contenders;
mod picture;
mod processor;
mod rounds;
mod table;
pub(super) mod timing;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tributary_bench::comparison::ComparisonReport;
use tributary_cli::output;
use tributary_files::Readers;

use crate::measurements::common::until_stopped;
pub(crate) use args::AllReduceArgs;
pub(super) use gloo::{Gloo, GlooWork};
pub(super) use own_contenders::run as reduce_on_all;
pub(super) use processor::Processor;
pub(super) use timing::tensors_of_a_turn;
use tributary::WrongUse;
use tributary_picture::{PngError, png};

/// File name, without extension, of the results in the folder of `--out`.
const FILE: &str = "allreduce";
/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, a failed network or contender, a wrong sum, or a missed limit.
pub(crate) fn run(args: &AllReduceArgs) -> Result<()> {
    if !args.size.as_u64().is_multiple_of(args.dtype.bytes()) {
        return Err(
            WrongUse(format!("--size {}: give a whole number of {}", args.size, args.dtype.name())).into()
        );
    }
    let report = until_stopped(rounds::measure(args))?;
    if args.json {
        output::print(serde_json::to_string(&report)?)?;
    } else {
        output::print(table::text(&report))?;
    }
    if let Some(folder) = &args.out {
        write(&report, folder)?;
    }
    let missed: Vec<_> =
        report.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    if !missed.is_empty() {
        bail!("limits were missed: {}", missed.join("; "));
    }
    Ok(())
}

fn write(report: &ComparisonReport, folder: &Path) -> Result<()> {
    let to = |ending: &str| folder.join(FILE).with_extension(ending);
    let save = |ending: &str, contents: &[u8]| {
        tributary_files::write(&to(ending), Readers::Everyone, contents)
            .with_context(|| format!("cannot write {}", to(ending).display()))
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    save("json", serde_json::to_string_pretty(report)?.as_bytes())?;
    let picture = format!("{}\n", picture::picture(report));
    save("svg", picture.as_bytes())?;
    match png(&picture) {
        Ok(png) => save("png", &png),
        // The SVG file shows the same picture, so a missing PNG file is not an error.
        Err(error @ PngError::NoFonts) => {
            output::complain(format_args!("note: {} was not written: {error}", to("png").display()));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
