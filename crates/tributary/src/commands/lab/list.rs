//! `tributary lab list`: shows the labs on this machine, and their states.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tributary_cli::output;
use tributary_lab::rootless::Rights;
use tributary_lab::{Cut, Lab, LabError, Link};

use crate::lab::{DaemonState, Record, broken, name_option};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Show only this lab, with all of its daemons
    #[arg(value_name = "NAME", conflicts_with = "name")]
    lab: Option<String>,

    /// Show only this lab; the same option as in the other commands
    #[arg(long)]
    name: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// A lab and its state.
#[derive(Debug)]
struct Listed {
    name: String,
    /// The state; `None` if the lab was never completed.
    up: Option<Up>,
}

/// The state of a running lab.
#[derive(Debug)]
struct Up {
    record: Record,
    /// The daemons' states, in the order of the record's stations.
    daemons: Vec<DaemonState>,
    cut: Vec<Link>,
    /// The slow stations, each with its factor. The last value is true if the process that slows the
    /// station down still runs.
    slow: Vec<(String, f64, bool)>,
}

/// Prints the labs.
///
/// # Errors
/// The requested lab does not exist.
pub(super) fn run(args: &ListArgs, rights: &Rights) -> Result<()> {
    let only = args.lab.as_ref().or(args.name.as_ref());
    let names = match only {
        Some(name) => vec![Lab::open(name)?.name().to_owned()],
        None => Lab::list()?,
    };
    let labs = names.into_iter().map(look).collect::<Result<Vec<_>>>()?;
    if args.json {
        let labs: Vec<_> = labs.iter().map(Listed::json).collect();
        output::print(json!({ "labs": labs }))?;
        return Ok(());
    }
    for lab in &labs {
        if let (Some(up), true) = (&lab.up, only.is_some()) {
            output::print(up.record.table())?;
        }
        output::print(lab.text())?;
    }
    match (labs.is_empty(), rights.are_a_users()) {
        (true, true) => output::print("there are no labs of this user; those of root are listed with sudo")?,
        (true, false) => output::print("there are no labs")?,
        (false, _) => {}
    }
    Ok(())
}

/// Reads a lab's state. A lab that is removed meanwhile appears as never completed.
fn look(name: String) -> Result<Listed> {
    let lab = match Lab::open(&name) {
        Ok(lab) => lab,
        Err(LabError::Incomplete(_) | LabError::NoLab(_) | LabError::BadRecord { .. }) => {
            return Ok(Listed { name, up: None });
        }
        Err(error) => return Err(error.into()),
    };
    let Ok(record) = Record::load(&lab) else { return Ok(Listed { name, up: None }) };
    match look_inside(&lab, record) {
        Ok(up) => Ok(Listed { name, up: Some(up) }),
        Err(error) if matches!(error.downcast_ref(), Some(LabError::NoLab(_))) => {
            Ok(Listed { name, up: None })
        }
        Err(error) => Err(error),
    }
}

fn look_inside(lab: &Lab, record: Record) -> Result<Up> {
    let stations = record.stations();
    let daemons = stations.iter().map(|station| station.state(lab)).collect::<Result<_, _>>()?;
    let slow = stations.iter().filter_map(|station| {
        let slow = station.slow?;
        Some((station.name.clone(), slow.factor, lab.runs_beside(slow.process)))
    });
    let slow = slow.collect();
    let cut = lab.links()?.into_iter().filter(|link| link.cut.is_some()).collect();
    Ok(Up { record, daemons, cut, slow })
}

impl Listed {
    fn state(&self) -> &'static str {
        match &self.up {
            None => "unfinished",
            Some(up) if up.are(DaemonState::Ended).is_empty() => "up",
            Some(_) => "broken",
        }
    }

    fn json(&self) -> Value {
        let (name, state) = (&self.name, self.state());
        let Some(up) = &self.up else { return json!({ "name": name, "state": state, "ended": [] }) };
        let slow = up.slow.iter().map(|(node, factor, _)| json!({ "node": node, "factor": factor }));
        let cut =
            up.cut.iter().map(|link| json!({ "link": link.name, "carrier": link.cut == Some(Cut::Carrier) }));
        let stations = up.record.stations().iter().zip(&up.daemons).map(|(station, daemon)| {
            json!({
                "name": station.name,
                "daemon": station.daemon,
                "state": daemon,
                "process": station.process,
            })
        });
        json!({
            "name": name,
            "state": state,
            "ended": up.are(DaemonState::Ended),
            "killed": up.are(DaemonState::Killed),
            "cut": cut.collect::<Vec<_>>(),
            "slow": slow.collect::<Vec<_>>(),
            "stations": stations.collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let Some(up) = &self.up else { return format!("{}  {}", self.name, self.state()) };
        let ended = up.are(DaemonState::Ended);
        let state = if ended.is_empty() { self.state().to_owned() } else { broken(&self.name, &ended) };
        let mut lines = vec![format!("{}  {state}", self.name)];
        let mut line = |what: &str, all: Vec<String>| {
            if !all.is_empty() {
                lines.push(format!("    {what}: {}", all.join(", ")));
            }
        };
        let again = name_option(&self.name);
        line("killed", up.are(DaemonState::Killed));
        let carrier = |link: &Link| if link.cut == Some(Cut::Carrier) { " (no carrier)" } else { "" };
        line("cut", up.cut.iter().map(|link| format!("{}{}", link.name, carrier(link))).collect());
        let slow = |(node, factor, kept): &(String, f64, bool)| match kept {
            true => format!("{node} ({factor} times)"),
            false => format!("{node} (what slowed it down has ended: `tributary lab slow{again} {node} 1`)"),
        };
        line("slow", up.slow.iter().map(slow).collect());
        lines.join("\n")
    }
}

impl Up {
    /// Returns the stations whose daemons are in this state.
    fn are(&self, state: DaemonState) -> Vec<String> {
        let all = self.record.stations().iter().zip(&self.daemons);
        all.filter(|(_, daemon)| **daemon == state).map(|(station, _)| station.name.clone()).collect()
    }
}
