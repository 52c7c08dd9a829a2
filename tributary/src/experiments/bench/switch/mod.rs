//! `tributary bench switch`: the embedded switch beside BMv2 and a bare loop, under the same load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime;
use tributary_bench::switch_lab::{
    Candidate, Case, Comparison, Run, Setting, SwitchLabOptions, SwitchUnderTest, measure,
};
use tributary_cli::output;
use tributary_controller::built_in_slots;

use crate::daemons::service::{Stop, WrongUse};
use tributary_cli::options::window;
use tributary_cli::output::number_table;

const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Measures how many slices a second a switch aggregates: two children and a parent on three veth interfaces, each
/// slice two packets in and one out. The embedded switch and BMv2's simple_switch_grpc take turns, with the same
/// compiled program, tables and load; every sum is checked. A bare loop of recvmmsg, add and sendmmsg, with no
/// protocol, takes turns with them: it shows the most that the machine can do
///
/// The exit status is 1 unless the embedded switch is at least as fast as the loop, and 10 times as fast as BMv2.
#[derive(Debug, Clone, Args)]
pub(crate) struct SwitchArgs {
    /// What to measure [default: everything that is installed on this machine]
    #[arg(long, value_enum, value_delimiter = ',')]
    switch: Vec<Which>,

    /// Runs of each switch with each width and window; the tables hold their medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,

    /// Longest packets of the links, in bytes, which slices fill: 256 values with 1500, 2,048 with 9000
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1500,9000",
          value_parser = super::common::mtu)]
    mtu: Vec<u16>,

    /// Slices in flight at once, powers of two
    #[arg(long, value_name = "SLOTS", value_delimiter = ',', default_value = "16,64", value_parser = window)]
    window: Vec<u32>,

    /// How long each run is measured, in seconds
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
    /// The bare loop, which is compiled with `cc`
    Loop,
    /// simple_switch_grpc, from the PATH
    Bmv2,
}

impl From<Which> for SwitchUnderTest {
    fn from(which: Which) -> Self {
        match which {
            Which::Softswitch => Self::Softswitch,
            Which::Loop => Self::Loop,
            Which::Bmv2 => Self::Bmv2,
        }
    }
}

/// Measures, and prints the results.
///
/// # Errors
/// No rights to make a lab; a switch that does not start or aggregates wrongly; a ratio below its limit.
pub(crate) fn run(args: &SwitchArgs) -> Result<()> {
    let slots = built_in_slots()?;
    if let Some(window) = args.window.iter().find(|window| **window > slots) {
        return Err(WrongUse(format!("--window {window}: a switch has {slots} slots")).into());
    }
    let options = SwitchLabOptions {
        name: format!("bench-switch-{}", std::process::id()),
        program: std::env::current_exe().context("cannot tell where this program is")?,
        switches: switches(&args.switch)?,
        runs: args.runs.into(),
        mtus: args.mtu.clone(),
        windows: args.window.clone(),
        seconds: seconds(args.seconds)?,
    };
    let cases = options.mtus.len() * options.windows.len();
    let bar = ProgressBar::new((cases * options.switches.len() * options.runs) as u64);
    bar.set_style(ProgressStyle::with_template("run {pos} of {len} is done {wide_bar} {msg}")?);
    bar.enable_steady_tick(SPINNER_TICK);
    let measured = measure(&options, &*stop_on_signal()?, |setting, run| progress(&bar, setting, run));
    bar.finish_and_clear();
    let report = measured?;
    if args.json {
        output::print(serde_json::to_string(&report)?)?;
    } else {
        report.cases.iter().try_for_each(|case| output::print(text(case)))?;
    }
    let missed: Vec<_> = report.cases.iter().flat_map(missed).collect();
    ensure!(missed.is_empty(), "limits were missed: {}", missed.join("; "));
    Ok(())
}

/// The switches that were named, or all that are installed.
fn switches(named: &[Which]) -> Result<Vec<SwitchUnderTest>> {
    let named: Vec<_> = named.iter().copied().map(SwitchUnderTest::from).collect();
    if let Some(missing) = named.iter().find_map(|switch| switch.missing()) {
        bail!("{missing}");
    }
    if !named.is_empty() {
        return Ok(named);
    }
    let (found, left_out): (Vec<_>, Vec<_>) =
        SwitchUnderTest::ALL.into_iter().partition(|switch| switch.missing().is_none());
    for switch in left_out {
        output::complain(format_args!(
            "{} is left out: {}",
            switch.name(),
            switch.missing().unwrap_or_default()
        ));
    }
    Ok(found)
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

fn progress(bar: &ProgressBar, setting: &Setting, run: &Run) {
    let line = format!(
        "{}: {} run {}: {:.0} slices/s, {} resent; cores busy: switch {:.2}, generator {:.2}",
        describe(setting),
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

fn describe(setting: &Setting) -> String {
    let Setting { mtu, values, window } = setting;
    format!("{values} values (MTU {mtu}), window {window}")
}

fn text(case: &Case) -> String {
    let mut table = number_table(&[
        "switch",
        "slices/s (median)",
        "min to max",
        "cores of the switch",
        "of the generator",
        "of all others",
        "sent again",
    ]);
    for candidate in &case.candidates {
        table.add_row(row(candidate));
    }
    let verdicts: String = case.comparisons.iter().map(|one| format!("\n{}", verdict(one))).collect();
    format!("{}\n{table}{verdicts}", describe(&case.setting))
}

fn verdict(comparison: &Comparison) -> String {
    let Comparison { other, ratio, limit, passed } = comparison;
    format!(
        "embedded switch / {}: {:.2} ({:.2} to {:.2} run by run), at least {limit}: {}",
        label(*other),
        ratio.of_medians,
        ratio.min,
        ratio.max,
        if *passed { "passed" } else { "missed" },
    )
}

fn missed(case: &Case) -> impl Iterator<Item = String> {
    let missed = case.comparisons.iter().filter(|comparison| !comparison.passed);
    missed.map(|comparison| format!("{}: {}", describe(&case.setting), verdict(comparison)))
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
        SwitchUnderTest::Loop => "bare loop",
    }
}
