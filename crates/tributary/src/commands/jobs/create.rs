//! `tributary jobs create`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;
use clap::{Args, ValueEnum};
use serde_json::json;
use tributary_api::v1;
use tributary_cli::output;
use tributary_cli::ranks::Ranks;

use super::list::plan_json;
use super::queue;
use crate::options::remote::{ControllerArgs, connect, refused};
use tributary_cli::options::{Aggregation, Downlink, name, share, size, threads, window};

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// The job's name: 1 to 64 of a-z, A-Z, 0-9, '-', '_' and '.'
    name: String,

    /// File for the job's token, which processes and commands of the job need; readable only by this user
    #[arg(long, value_name = "FILE")]
    token_out: PathBuf,

    /// Hosts that train, rank 0 first [default: the topology's workers]
    #[arg(long, visible_alias = "hosts", value_name = "HOST,HOST,…", value_delimiter = ',', value_parser = name)]
    workers: Vec<String>,

    /// Training processes (ranks) on each of these hosts [default: the processes that join decide]
    #[arg(long, value_name = "RANKS", value_parser = clap::value_parser!(u16).range(1..))]
    ranks_per_host: Option<u16>,

    /// Host of the aggregation server [default: the topology's]
    #[arg(long, value_name = "HOST")]
    server: Option<String>,

    /// Where gradients are aggregated on their way
    #[arg(long, value_enum, default_value_t = Aggregation::Tree)]
    aggregation: Aggregation,

    /// Delivery of results to the workers
    #[arg(long, value_enum, default_value_t = Downlink::Multicast)]
    downlink: Downlink,

    /// Slices in flight at once, a power of two: the slots that the job owns on each switch
    /// [default: the controller's]
    #[arg(long, value_name = "SLOTS", value_parser = window)]
    window: Option<u32>,

    /// Threads with which each agent and the server process the job's slices, a power of two
    /// [default: what the hosts' links need, up to a quarter of their processors]
    #[arg(long, value_name = "THREADS", value_parser = threads)]
    threads: Option<u32>,

    /// Size of one worker's gradient, for the expected speed-ups [default: the controller's]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    gradient: Option<ByteSize>,

    /// Let the job fail when it loses a member, instead of continuing without it
    #[arg(long)]
    rigid: bool,

    /// Hide the workers' values from switches, the server and observers of the links: to them, a sum of
    /// fewer than all members is noise
    #[arg(long)]
    confidential: bool,

    /// Treatment of processes that become much slower than the others: with auto, the job continues without
    /// them until they recover, if this makes steps clearly shorter
    #[arg(long, value_enum, default_value_t = Degraded::Off, conflicts_with = "rigid")]
    degraded: Degraded,

    /// Up to this share of all processes, slow processes are detached, and their data is not processed.
    /// Above it, the other processes process their data [default: the controller's, 0.1]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    theta: Option<f64>,

    /// Time for which the job may wait for its members to join [default: the controller's, an hour]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    join_deadline: Option<u64>,

    /// Time for which the job may wait for slots, or for a dead part of the fabric; 0: it does not wait
    /// [default: as long as for the members]
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u64>,

    /// Replace the token file if it exists; only operators can then end the job of the old token
    #[arg(long)]
    overwrite: bool,
}

/// Treatment of slow processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Degraded {
    /// The job keeps them
    Off,
    /// The job continues without them, if all of its processes are elastic
    Auto,
}

impl From<Degraded> for v1::Degraded {
    fn from(degraded: Degraded) -> Self {
        match degraded {
            Degraded::Off => Self::Off,
            Degraded::Auto => Self::Auto,
        }
    }
}

pub(super) async fn run(controller: &ControllerArgs, args: &CreateArgs, json: bool) -> Result<()> {
    if !args.overwrite && args.token_out.is_file() {
        bail!(
            "{} exists already, and may contain another job's token: name another file, or give --overwrite",
            args.token_out.display()
        );
    }
    let remote = controller.remote()?;
    let mut client = connect(&remote).await?;
    let request = v1::CreateJobRequest {
        name: args.name.clone(),
        workers: args.workers.clone(),
        server: args.server.clone().unwrap_or_default(),
        aggregation: v1::Aggregation::from(args.aggregation).into(),
        downlink: v1::Downlink::from(args.downlink).into(),
        window: args.window.unwrap_or_default(),
        gradient_bytes: args.gradient.unwrap_or_default().as_u64(),
        rigid: args.rigid,
        join_deadline_milliseconds: args.join_deadline.unwrap_or_default().saturating_mul(1000),
        wait: args.wait != Some(0),
        degraded: v1::Degraded::from(args.degraded).into(),
        theta: args.theta,
        server_reads: false,
        confidential: args.confidential,
        processes_per_host: args.ranks_per_host.unwrap_or_default().into(),
        threads: args.threads.unwrap_or_default(),
    };
    let created = client.create_job(request).await.map_err(refused)?.into_inner();
    if let Err(error) = write_token(&args.token_out, &created.token) {
        // Without the token, the creator could never end the job, so it is ended now.
        let end = v1::EndJobRequest { job: args.name.clone(), token: created.token };
        client.end_job(end).await.map_err(refused)?;
        return Err(error).with_context(|| format!("cannot write the token to {}", args.token_out.display()));
    }
    let plan = match created.queued {
        true => {
            let (address, token) = (remote.address(), args.token_out.display());
            // A controller with a state folder still has the job after a restart.
            let left = |status| {
                refused(status).context(format!(
                    "the controller at {address} has become unreachable while job {} waits. The job's token is in \
                     {token}. If the controller has a --state folder, the job is in its queue again after a restart: \
                     check with `tributary jobs list`",
                    args.name
                ))
            };
            let job = (args.name.as_str(), created.token.as_slice());
            queue::wait(&mut client, job, args.wait.map(Duration::from_secs), left).await?
        }
        false => created.plan,
    };
    let plan = plan.unwrap_or_default();
    match json {
        true => {
            output::print(json!({ "job": args.name, "token_file": args.token_out, "plan": plan_json(&plan) }))
        }
        false => output::print(text(args, &plan)),
    }
}

/// Writes a job's token to a file that only this user can read.
pub(crate) fn write_token(path: &Path, token: &[u8]) -> io::Result<()> {
    tributary_files::write(path, tributary_files::Readers::Owner, format!("{}\n", hex::encode(token)))
}

fn text(args: &CreateArgs, plan: &v1::PlanSummary) -> String {
    let processes = args.ranks_per_host.unwrap_or(1).into();
    let ranks = Ranks::count(plan.workers.iter().map(|host| (host.as_str(), processes)));
    let workers: Vec<_> = plan.workers.iter().map(|host| ranks.label(host)).collect();
    let mut lines = vec![
        format!("job {} waits for {} and {}", args.name, workers.join(", "), plan.server),
        format!("its token is in {}", args.token_out.display()),
    ];
    let aggregating: Vec<_> = plan.switches.iter().filter(|switch| switch.aggregates).collect();
    let aggregating: Vec<_> =
        aggregating.iter().map(|switch| format!("{} ({})", switch.name, switch.fan_in)).collect();
    lines.push(match aggregating.is_empty() {
        true => "no switch aggregates its gradients".to_owned(),
        false => format!("aggregated in (number of children): {}", aggregating.join(", ")),
    });
    let speedup = |speedup: f64, over: &str| format!("expected speed-up over {over}: {speedup:.2}");
    lines.extend(plan.speedup_over_ring.map(|over_ring| speedup(over_ring, "ring all-reduce")));
    // If all workers are on the server's host, a parameter server sends nothing. Then the speed-up is 0
    // and is left out.
    let over_server = Some(plan.speedup_over_parameter_server).filter(|over_server| *over_server > 0.0);
    lines.extend(over_server.map(|over_server| speedup(over_server, "a plain parameter server")));
    lines.extend(plan.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn args(options: &[&str]) -> CreateArgs {
        let command = CreateArgs::augment_args(Command::new("create"));
        let words = [&["create", "digits", "--token-out", "digits.token"], options].concat();
        CreateArgs::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn the_ranks_on_each_host_are_shown() {
        let workers = vec!["w0".into(), "w1".into()];
        let plan = v1::PlanSummary { workers, server: "ps".into(), ..v1::PlanSummary::default() };
        let shown = |options: &[&str]| text(&args(options), &plan).lines().next().unwrap().to_owned();
        assert_eq!(shown(&["--hosts", "w0,w1"]), "job digits waits for w0, w1 and ps");
        let several = shown(&["--hosts", "w0,w1", "--ranks-per-host", "4"]);
        assert_eq!(several, "job digits waits for w0 (ranks 0–3), w1 (ranks 4–7) and ps");
    }

    #[test]
    fn hosts_may_be_written_with_spaces_behind_the_commas() {
        assert_eq!(args(&["--workers", "w0, w1"]).workers, ["w0", "w1"]);
    }

    #[test]
    fn a_speed_up_is_told_only_over_what_would_take_time() {
        let plan = v1::PlanSummary {
            workers: vec!["ps".into()],
            server: "ps".into(),
            speedup_over_ring: None,
            speedup_over_parameter_server: 0.0,
            ..v1::PlanSummary::default()
        };
        let args = args(&[]);
        assert!(!text(&args, &plan).contains("speed-up"), "{}", text(&args, &plan));
        let plan = v1::PlanSummary { speedup_over_parameter_server: 2.5, ..plan };
        assert!(text(&args, &plan).contains("speed-up over a plain parameter server: 2.50"));
    }

    #[test]
    fn a_token_can_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.token");
        write_token(&path, &[1, 2, 255]).unwrap();
        assert_eq!(crate::options::remote::read_token(&path).unwrap(), [1, 2, 255]);
    }
}
