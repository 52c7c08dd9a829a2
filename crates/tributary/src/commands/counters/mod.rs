//! `tributary counters`: the switches' counters.

mod reading;
mod table;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use console::Term;
use time::OffsetDateTime;
use tokio::runtime;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_cli::output;

use reading::Reading;

use crate::options::remote::{ControllerArgs, refused};
use tributary_cli::switches;

/// Shows the switches' counters
///
/// The command prints the packets of each job by their treatment, and the frames and bytes of each port.
#[derive(Debug, Args)]
pub(crate) struct CountersArgs {
    #[command(flatten)]
    controller: ControllerArgs,

    #[command(flatten)]
    shown: ShownArgs,
}

/// Which counters are shown, and how.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Show only this switch; may be repeated
    #[arg(long, value_name = "NAME")]
    switch: Vec<String>,

    /// Show only this job, and no ports
    #[arg(long, value_name = "NAME")]
    job: Option<String>,

    /// Show rates a second until interrupted; on a terminal, each reading replaces the previous one
    #[arg(long)]
    watch: bool,

    /// Seconds between two readings with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,

    /// Print one JSON object per reading instead of tables
    #[arg(long)]
    json: bool,
}

/// Reads and prints the counters.
///
/// # Errors
/// The controller does not answer or refuses, or the job has no counters.
pub(crate) fn run(args: &CountersArgs) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut client = args.controller.connect().await?;
        show(&mut client, &args.shown).await
    })
}

/// Reads and prints the counters of this controller's switches.
///
/// # Errors
/// The controller refuses, or the job has no counters.
pub(crate) async fn show(client: &mut ControllerClient<Channel>, args: &ShownArgs) -> Result<()> {
    if args.watch {
        return watch(client, args).await;
    }
    output::print(text(args, &read(client, args).await?, None))
}

/// Prints the first reading as totals, and each later one as rates.
///
/// Ends on a signal, or when the reader of the output has closed the pipe.
async fn watch(client: &mut ControllerClient<Channel>, args: &ShownArgs) -> Result<()> {
    let mut looks = interval(Duration::from_secs(args.interval));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before: Option<(Instant, Reading)> = None;
    loop {
        looks.tick().await;
        let reading = read(client, args).await?;
        let now = Instant::now();
        let rates = before.map(|(then, before)| reading.rates_since(&before, now - then));
        if !args.json {
            turn_page()?;
        }
        if output::print_while_read(text(args, &reading, rates.as_ref()))?.is_break() {
            return Ok(());
        }
        before = Some((now, reading));
    }
}

/// Prints the time of a reading. On a terminal, the reading replaces the previous one.
fn turn_page() -> Result<()> {
    let terminal = Term::stdout();
    if terminal.is_term() {
        terminal.clear_screen()?;
    }
    let now = OffsetDateTime::now_utc();
    output::print(format_args!("{:02}:{:02}:{:02} UTC", now.hour(), now.minute(), now.second()))
}

async fn read(client: &mut ControllerClient<Channel>, args: &ShownArgs) -> Result<Reading> {
    let request = v1::GetCountersRequest { switches: args.switch.clone() };
    let mut switches = client.get_counters(request).await.map_err(refused)?.into_inner().switches;
    let states = switches::list(client).await?;
    if let Some(job) = &args.job {
        for switch in &mut switches {
            switch.jobs.retain(|counter| counter.job == *job);
            switch.ports.clear();
        }
        // An unreachable switch stays in the list, because it may have counters that were not read.
        switches.retain(|switch| !switch.jobs.is_empty() || switch.unreachable.is_some());
        if switches.iter().all(|switch| switch.jobs.is_empty()) {
            bail!("no counters of a job {job:?}: `tributary jobs list` shows the jobs");
        }
    }
    Ok(Reading::new(&switches, &states))
}

fn text(args: &ShownArgs, reading: &Reading, rates: Option<&Reading>) -> String {
    match args.json {
        true => reading.json(rates).to_string(),
        false => table::text(rates.unwrap_or(reading), rates.is_some()),
    }
}
