//! `tributary bench switch`: the embedded switch beside BMv2, under the same load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_bench::switch_lab::{Candidate, Report, Run, SwitchLabOptions, SwitchUnderTest, measure};
use tributary_controller::built_in_slots;
use tributary_lab::SwitchProgram;

use crate::daemon::{Stop, WrongUse};
use tributary_cli::options::window;
use tributary_cli::output::number_table;

const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Measures how many slices a second a switch aggregates: two children and a parent on three veth interfaces, slices
/// of 256 values, each two packets in and one out. The embedded switch and BMv2's simple_switch_grpc take turns,
/// with the same compiled program, tables and load; every sum is checked. Needs root
#[derive(Debug, Clone, Args)]
pub(crate) struct SwitchArgs {
    /// Which switch to measure
    #[arg(long, value_enum, default_value_t = Which::Both)]
    switch: Which,

    /// Runs of each switch; the table holds their medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,

    /// Slices under way at once, a power of two
    #[arg(long, value_name = "SLOTS", default_value_t = 16, value_parser = window)]
    window: u32,

    /// How long each run is counted, in seconds
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true)]
    seconds: f64,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// The embedded switch
    Softswitch,
    /// simple_switch_grpc, from the PATH
    Bmv2,
    /// Both, in turns; the embedded switch alone where BMv2 is not installed
    Both,
}

/// Measures, and prints what came out.
///
/// # Errors
/// No root; a switch that does not start or aggregates wrongly; a ratio below the limit.
pub(crate) fn run(args: &SwitchArgs) -> Result<()> {
    let options = SwitchLabOptions {
        name: format!("bench-switch-{}", std::process::id()),
        program: std::env::current_exe().context("cannot tell where this program is")?,
        switches: switches(args.switch)?,
        runs: args.runs.into(),
        window: args.window,
        seconds: seconds(args.seconds)?,
    };
    let slots = built_in_slots()?;
    if options.window > slots {
        return Err(WrongUse(format!("--window {}: a switch has {slots} slots", options.window)).into());
    }
    let bar = ProgressBar::new((options.switches.len() * options.runs) as u64);
    bar.set_style(ProgressStyle::with_template("run {pos} of {len} is done {wide_bar} {msg}")?);
    bar.enable_steady_tick(SPINNER_TICK);
    let measured = measure(&options, &*stop_on_signal()?, |run| progress(&bar, run));
    bar.finish_and_clear();
    let report = measured?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    match report.ratio {
        Some(ratio) if report.passed == Some(false) => {
            bail!(
                "{:.2} times as many slices as BMv2, where {} times are needed",
                ratio.of_medians,
                report.limit
            )
        }
        _ => Ok(()),
    }
}

fn switches(which: Which) -> Result<Vec<SwitchUnderTest>> {
    let installed = SwitchProgram::Bmv2.check().is_ok();
    Ok(match which {
        Which::Softswitch => vec![SwitchUnderTest::Softswitch],
        Which::Bmv2 if !installed => {
            bail!("there is no simple_switch_grpc on the PATH: install BMv2 (docs/bmv2.md)")
        }
        Which::Bmv2 => vec![SwitchUnderTest::Bmv2],
        Which::Both if !installed => {
            eprintln!(
                "there is no simple_switch_grpc on the PATH (docs/bmv2.md): \
                 measuring the embedded switch alone, with nothing to compare it with"
            );
            vec![SwitchUnderTest::Softswitch]
        }
        Which::Both => vec![SwitchUnderTest::Softswitch, SwitchUnderTest::Bmv2],
    })
}

fn seconds(seconds: f64) -> Result<Duration> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(WrongUse(format!("--seconds {seconds}: a time is needed, and more than 0")).into()),
    }
}

/// A flag that SIGTERM and SIGINT set, so that the lab is removed before this process ends.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stop = runtime.block_on(async { Stop::new() })?;
    let set = Arc::clone(&flag);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(stop.requested());
        set.store(true, Ordering::Relaxed);
    })?;
    Ok(flag)
}

fn progress(bar: &ProgressBar, run: &Run) {
    let line = format!(
        "{} run {}: {:.0} slices/s, {} resent; cores busy: switch {:.2}, generator {:.2}",
        label(run.switch),
        run.run,
        run.slices_per_second,
        run.resent,
        run.switch_cpu_seconds / run.seconds,
        run.generator_cpu_seconds / run.seconds,
    );
    bar.set_message(line);
    bar.inc(1);
}

fn print(report: &Report) {
    let mut table = number_table(&[
        "switch",
        "slices/s (median)",
        "min to max",
        "cores of the switch",
        "of the generator",
        "of all others",
        "sent again",
    ]);
    for candidate in &report.candidates {
        table.add_row(row(candidate));
    }
    println!("{table}");
    let Some(ratio) = report.ratio else { return };
    let verdict = if ratio.of_medians >= report.goal {
        "above the goal"
    } else if ratio.of_medians >= report.limit {
        "above the limit, below the goal"
    } else {
        "below the limit"
    };
    println!(
        "embedded switch / BMv2: {:.2} ({:.2} to {:.2} run by run); limit {}, goal {}: {verdict}",
        ratio.of_medians, ratio.min, ratio.max, report.limit, report.goal
    );
}

fn row(candidate: &Candidate) -> [String; 7] {
    let Candidate { switch, slices_per_second, switch_cores, generator_cores, other_cores, resent } =
        candidate;
    [
        label(*switch).to_owned(),
        format!("{:.0}", slices_per_second.median),
        format!("{:.0} to {:.0}", slices_per_second.min, slices_per_second.max),
        format!("{:.2}", switch_cores.median),
        format!("{:.2}", generator_cores.median),
        format!("{:.2} to {:.2}", other_cores.min, other_cores.max),
        resent.to_string(),
    ]
}

fn label(switch: SwitchUnderTest) -> &'static str {
    match switch {
        SwitchUnderTest::Softswitch => "embedded",
        SwitchUnderTest::Bmv2 => "BMv2",
    }
}
