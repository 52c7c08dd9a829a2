//! `tributary jobs schedule`.

use anyhow::Result;
use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use tributary_api::{schedule, v1};
use tributary_cli::output;

use crate::options::remote::{ControllerArgs, refused};
use crate::present::schedule::{parts, picture};
use tributary_picture::PictureFile;

#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    /// The job's name
    name: String,

    /// Draw the times at which the gradients were ready, and the sets in which they are sent: an .svg or a
    /// .png
    #[arg(long, value_name = "FILE")]
    plot: Option<PictureFile>,
}

pub(crate) async fn run(controller: &ControllerArgs, args: &ScheduleArgs, json: bool) -> Result<()> {
    if let Some(plot) = &args.plot {
        plot.check()?;
    }
    let request = v1::GetScheduleRequest { job: args.name.clone() };
    let told = controller.connect().await?.get_schedule(request).await.map_err(refused)?.into_inner();
    if let Some(file) = &args.plot {
        file.write(&picture(&told))?;
    }
    match json {
        true => output::print(as_json(&told))?,
        false => output::print(text(&told))?,
    }
    Ok(())
}

fn text(told: &v1::GetScheduleResponse) -> String {
    let (schedule, profile) = parts(told);
    let ranks: Vec<_> = told.ranks.iter().map(u32::to_string).collect();
    let thrown_out = match told.thrown_out {
        0 => String::new(),
        1 => ", after one rejected profile".to_owned(),
        several => format!(", after {several} rejected profiles"),
    };
    let mut table = output::table(&["set", "leaves at", "late from", "gradients", "size"]);
    for (number, set) in schedule.sets.iter().enumerate() {
        table.add_row([
            (number + 1).to_string(),
            milliseconds(set.at_nanoseconds),
            late(set).map_or_else(|| "never".to_owned(), milliseconds),
            set.gradients.len().to_string(),
            ByteSize(set.bytes).to_string(),
        ]);
    }
    // If the time points were slower in their trial, `start_up_nanoseconds` is the length of the pass and
    // not the start-up time of an all-reduce.
    let start_up = match schedule.sets.len() {
        1 => "all are sent together: no gap is longer than the cost of another all-reduce,",
        _ => "the gaps between sets are longer than the start of an all-reduce,",
    };
    format!(
        "job {}, schedule {} from the profiles of rank {}{thrown_out}, {} s ago\n\
         {} gradients; {start_up} {}\n{table}",
        told.job,
        schedule.version,
        ranks.join(", "),
        told.age_milliseconds / 1000,
        profile.bytes.len(),
        milliseconds(profile.start_up_nanoseconds),
    )
}

fn as_json(told: &v1::GetScheduleResponse) -> Value {
    let (schedule, profile) = parts(told);
    let set = |set: &schedule::Set| {
        json!({
            "at_seconds": seconds(set.at_nanoseconds),
            "late_seconds": late(set).map(seconds),
            "gradients": set.gradients,
            "bytes": set.bytes,
        })
    };
    let gradients = profile.bytes.iter().zip(&profile.ready_nanoseconds);
    let gradient = |(bytes, ready): (&u64, &u64)| json!({ "bytes": bytes, "ready_seconds": seconds(*ready) });
    json!({
        "job": told.job,
        "version": schedule.version,
        "ranks": told.ranks,
        "thrown_out": told.thrown_out,
        "age_seconds": told.age_milliseconds as f64 / 1e3,
        "start_up_seconds": seconds(profile.start_up_nanoseconds),
        "sets": schedule.sets.iter().map(set).collect::<Vec<_>>(),
        "gradients": gradients.map(gradient).collect::<Vec<_>>(),
    })
}

/// Returns the set's delay in nanoseconds; `None` for a single set, which is never late.
fn late(set: &schedule::Set) -> Option<u64> {
    Some(set.late_nanoseconds).filter(|late| *late < u64::MAX)
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn milliseconds(nanoseconds: u64) -> String {
    format!("{:.1} ms", nanoseconds as f64 / 1e6)
}
