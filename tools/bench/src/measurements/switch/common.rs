//! Parts that measurements of one switch share: options, progress, and output.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tokio::runtime;
use tributary_bench::switch_lab::{
    Candidate, Comparison, Run, SettingResults, SwitchLabOptions, SwitchLabReport, SwitchUnderTest,
};
use tributary_cli::options::window;
use tributary_cli::output::{self, number_table};

use tributary::lab::tributary_program;
use tributary::{Stop, WrongUse};

const SPINNER_TICK: Duration = Duration::from_millis(100);

/// Options of every measurement of one switch.
#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    /// Switches to measure [default: everything that is installed on this machine]
    #[arg(long, value_enum, value_delimiter = ',')]
    switch: Vec<SwitchChoice>,

    /// Runs of each switch with each setting; the tables hold their medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,

    /// Slices or packets in flight at once, powers of two
    #[arg(long, value_name = "ITEMS", value_delimiter = ',', default_value = "16,64", value_parser = window)]
    pub(super) window: Vec<u32>,

    /// Time for which each run is measured, in seconds
    #[arg(long, default_value_t = 3.0, allow_negative_numbers = true)]
    seconds: f64,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// A switch to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SwitchChoice {
    /// The embedded switch, with neighbouring frames joined as in labs
    Joined,
    /// The embedded switch, with one frame at a time
    Softswitch,
    /// The embedded switch, with one frame at a time, past its interfaces' queues
    Bypassing,
    /// The bare loop, which is compiled with `cc`
    Loop,
    /// simple_switch_grpc, from the PATH
    Bmv2,
}

impl From<SwitchChoice> for SwitchUnderTest {
    fn from(which: SwitchChoice) -> Self {
        match which {
            SwitchChoice::Joined => Self::Joined,
            SwitchChoice::Softswitch => Self::Softswitch,
            SwitchChoice::Bypassing => Self::Bypassing,
            SwitchChoice::Loop => Self::Loop,
            SwitchChoice::Bmv2 => Self::Bmv2,
        }
    }
}

impl RunArgs {
    /// Returns the options of a measurement. `all` are the switches that take part if the user names none.
    pub(super) fn options(&self, name: &str, all: &[SwitchUnderTest]) -> Result<SwitchLabOptions> {
        Ok(SwitchLabOptions {
            name: format!("bench-{name}-{}", std::process::id()),
            program: tributary_program()?,
            switches: self.switches(all)?,
            runs: self.runs.into(),
            windows: self.window.clone(),
            seconds: self.seconds()?,
        })
    }

    /// Returns the switches that the user named, or all installed switches of `all`.
    fn switches(&self, all: &[SwitchUnderTest]) -> Result<Vec<SwitchUnderTest>> {
        let named: Vec<_> = self.switch.iter().copied().map(SwitchUnderTest::from).collect();
        if let Some(missing) = named.iter().find_map(|switch| switch.missing()) {
            bail!("{missing}");
        }
        if !named.is_empty() {
            return Ok(named);
        }
        let (found, left_out): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|switch| switch.missing().is_none());
        for switch in left_out {
            output::complain(format_args!(
                "{} is left out: {}",
                switch.name(),
                switch.missing().unwrap_or_default()
            ));
        }
        Ok(found)
    }

    fn seconds(&self) -> Result<Duration> {
        match Duration::try_from_secs_f64(self.seconds) {
            Ok(duration) if !duration.is_zero() => Ok(duration),
            _ => Err(WrongUse(format!("--seconds {}: a time above 0 is needed", self.seconds)).into()),
        }
    }
}

/// The words with which a measurement is described to users.
pub(super) struct Labels<Setting> {
    /// The items that are counted: slices or packets.
    pub(super) items: &'static str,
    /// Describes a setting in a few words.
    pub(super) describe: fn(&Setting) -> String,
}

impl<Setting: Serialize> Labels<Setting> {
    /// Runs a measurement of `settings` settings, shows its progress, and prints its report.
    ///
    /// # Errors
    /// The errors of the measurement, or missed limits.
    pub(super) fn show<E: Into<anyhow::Error>>(
        &self,
        args: &RunArgs,
        (settings, options): (usize, &SwitchLabOptions),
        measure: impl FnOnce(&AtomicBool, &mut dyn FnMut(&Setting, &Run)) -> Result<SwitchLabReport<Setting>, E>,
    ) -> Result<()> {
        let bar = ProgressBar::new((settings * options.switches.len() * options.runs) as u64);
        bar.set_style(ProgressStyle::with_template("run {pos} of {len} is done {wide_bar} {msg}")?);
        bar.enable_steady_tick(SPINNER_TICK);
        let measured = measure(&*stop_on_signal()?, &mut |setting, run| self.progress(&bar, setting, run));
        bar.finish_and_clear();
        let report = measured.map_err(Into::into)?;
        if args.json {
            output::print(serde_json::to_string(&report)?)?;
        } else {
            report.cases.iter().try_for_each(|case| output::print(self.text(case)))?;
        }
        let missed: Vec<_> = report.cases.iter().flat_map(|case| self.missed(case)).collect();
        ensure!(missed.is_empty(), "limits were missed: {}", missed.join("; "));
        Ok(())
    }

    fn progress(&self, bar: &ProgressBar, setting: &Setting, run: &Run) {
        let line = format!(
            "{}: {} run {}: {:.0} {}/s, {} resent; cores busy: switch {:.2}, generator {:.2}",
            (self.describe)(setting),
            label(run.switch),
            run.run,
            run.per_second,
            self.items,
            run.resent,
            run.switch_cpu_seconds / run.seconds,
            run.generator_cpu_seconds / run.seconds,
        );
        bar.set_message(line);
        bar.inc(1);
    }

    fn text(&self, case: &SettingResults<Setting>) -> impl Display {
        let rate = format!("{}/s (median)", self.items);
        let mut table = number_table(&[
            "switch",
            &rate,
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
        format!("{}\n{table}{verdicts}", (self.describe)(&case.setting))
    }

    fn missed(&self, case: &SettingResults<Setting>) -> impl Iterator<Item = String> {
        let missed = case.comparisons.iter().filter(|comparison| !comparison.passed);
        missed.map(|comparison| format!("{}: {}", (self.describe)(&case.setting), verdict(comparison)))
    }
}

/// Returns a flag that SIGTERM and SIGINT set, so that the lab is removed before this process ends.
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

fn verdict(comparison: &Comparison) -> String {
    let Comparison { switch, other, ratio, limit, passed } = comparison;
    let limit =
        limit.map(|limit| format!(", at least {limit}: {}", if *passed { "passed" } else { "missed" }));
    format!(
        "{} / {}: {:.2} ({:.2} to {:.2} run by run){}",
        label(*switch),
        label(*other),
        ratio.of_medians,
        ratio.min,
        ratio.max,
        limit.unwrap_or_default(),
    )
}

fn row(candidate: &Candidate) -> [String; 7] {
    let Candidate { switch, per_second, switch_cores, generator_cores, other_cores, resent } = candidate;
    [
        label(*switch).to_owned(),
        format!("{:.0}", per_second.median),
        format!("{:.0} to {:.0}", per_second.min, per_second.max),
        format!("{:.2}", switch_cores.median),
        format!("{:.2}", generator_cores.median),
        format!("{:.2} to {:.2}", other_cores.min, other_cores.max),
        resent.to_string(),
    ]
}

fn label(switch: SwitchUnderTest) -> &'static str {
    match switch {
        SwitchUnderTest::Softswitch => "embedded",
        SwitchUnderTest::Joined => "embedded, joined",
        SwitchUnderTest::Bypassing => "embedded, past queues",
        SwitchUnderTest::Bmv2 => "BMv2",
        SwitchUnderTest::Loop => "bare loop",
    }
}
