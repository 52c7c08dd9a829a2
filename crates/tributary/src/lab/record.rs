//! The record of a running lab, for users and for the commands that use the lab.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use anyhow::{Context, Result};
use comfy_table::Table;
use serde::{Deserialize, Serialize};
use tributary_lab::{Daemons, Lab, LabError, SwitchKind, SwitchProgram};
use tributary_topology::{NodeKey, Topology};

use super::background::{Background, log_file};
use super::launch::Launch;
use super::{DEFAULT_NAME, name_option};
use tributary_cli::options::{Aggregation, Downlink};
use tributary_cli::output;

/// The record's file name. The file is written when all daemons are up, so a lab without it was left by
/// a crash.
const FILE: &str = "fabric.json";
/// The name of the lab's job. Users can create more jobs.
const JOB: &str = "lab";
/// The name of the daemon that runs on the server's host.
const SERVER: &str = "server";

/// Options with which the lab's job is planned.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JobOptions {
    pub(super) aggregation: Aggregation,
    pub(super) downlink: Downlink,
    /// The window; `None` for the controller's default.
    pub(super) window: Option<u32>,
    /// The number of threads; `None` for the controller's default.
    #[serde(default)]
    pub(super) threads: Option<u32>,
    /// The job's θ; `None` if the job takes no action on slow processes.
    #[serde(default)]
    pub(super) theta: Option<f64>,
    /// True if the job is confidential, so that workers mask their values.
    #[serde(default)]
    pub(super) confidential: bool,
}

/// The record of a running fabric.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    name: String,
    topology: String,
    /// The folder of logs, sockets and the token.
    pub(crate) folder: PathBuf,
    pub(super) controller: SocketAddrV4,
    /// The URL of the controller's live page on this machine; `None` if the page is not shown.
    #[serde(default)]
    pub(super) page: Option<String>,
    /// The name of the lab's job.
    pub job: String,
    /// The file with the job's token.
    pub token_file: PathBuf,
    pub(super) job_options: JobOptions,
    /// The host of the aggregation server.
    pub(super) server: String,
    /// The workers, in the order of ranks.
    pub workers: Vec<Worker>,
    stations: Vec<StationRecord>,
}

/// A worker of the job.
#[derive(Debug, Serialize, Deserialize)]
pub struct Worker {
    /// The worker's host in the topology.
    pub host: String,
    /// The host's address on the data network.
    pub(super) address: Ipv4Addr,
    /// The path of the socket of the host's agent.
    pub socket: PathBuf,
}

/// The record of one station.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StationRecord {
    pub(crate) name: String,
    pub(crate) daemon: String,
    namespace: String,
    management_address: Ipv4Addr,
    interfaces: Vec<String>,
    log: PathBuf,
    /// The command that starts the station's daemon; `None` if the station has no daemon.
    pub(crate) launch: Option<Launch>,
    /// The daemon's process id; `None` without a daemon, or after `tributary lab kill`.
    pub(crate) process: Option<u32>,
    /// The slowdown, while the station's processes are slowed down.
    pub(crate) slow: Option<Slow>,
}

/// The slowdown of a station's processes.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Slow {
    /// The factor by which the processes run slower.
    pub(crate) factor: f64,
    /// The id of the process that slows them down.
    pub(crate) process: u32,
}

/// The state of a station's daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DaemonState {
    /// The station has no daemon.
    None,
    /// The daemon runs.
    Up,
    /// `tributary lab kill` has killed the daemon.
    Killed,
    /// The daemon has ended unexpectedly.
    Ended,
}

impl Record {
    /// Creates the record of `lab`, before any daemon is started.
    pub(super) fn new(
        lab: &Lab,
        topology: &Topology,
        daemons: &Daemons<'_>,
        job_options: JobOptions,
    ) -> Result<Self> {
        let folder = lab.folder();
        let name = |key: &NodeKey| topology.get(*key).map(|node| node.name.clone());
        let server = topology.servers().first().and_then(name);
        let workers = topology.workers();
        let worker = |key: &NodeKey| {
            let node = topology.get(*key)?;
            let host = node.name.clone();
            Some(Worker { address: node.host()?.ip, socket: daemons.socket(&host), host })
        };
        Ok(Self {
            name: lab.name().to_owned(),
            topology: topology.name().to_owned(),
            controller: daemons.controller_address()?,
            page: None,
            job: JOB.to_owned(),
            token_file: folder.join(format!("{JOB}.token")),
            job_options,
            server: server.context("the topology has no host with role = \"server\"")?,
            workers: workers.iter().filter_map(worker).collect(),
            stations: lab
                .stations()
                .map(|name| station(lab, topology, daemons, name))
                .collect::<Result<_, _>>()?,
            folder,
        })
    }

    /// Starts the daemon at a station, and records its command and process id.
    ///
    /// # Errors
    /// The station does not exist, or the program cannot be started.
    pub(super) fn launch(&mut self, lab: &Lab, name: &str, launch: Launch) -> Result<Background> {
        let daemon = Background::launch(&self.folder, name, &launch)?;
        let station = self.station_mut(lab, name)?;
        station.process = Some(daemon.process);
        station.launch = Some(launch);
        Ok(daemon)
    }

    /// Returns all stations, the controller's first.
    pub(crate) fn stations(&self) -> &[StationRecord] {
        &self.stations
    }

    /// Returns the station, the program and the process id of each daemon that was not killed.
    pub fn daemons(&self) -> impl Iterator<Item = (&str, &str, u32)> {
        let running = self.stations.iter().filter_map(|station| Some((station, station.process?)));
        running.map(|(station, process)| (station.name.as_str(), station.daemon.as_str(), process))
    }

    /// Returns the record of a station.
    ///
    /// # Errors
    /// No station has this name.
    pub(crate) fn station_mut(&mut self, lab: &Lab, name: &str) -> Result<&mut StationRecord, LabError> {
        // The call returns the error that lists the stations.
        lab.namespace(name)?;
        let station = self.stations.iter_mut().find(|station| station.name == name);
        station.ok_or_else(|| LabError::Incomplete(lab.name().to_owned()))
    }

    /// Returns the stations whose daemons have ended unexpectedly.
    pub(crate) fn ended(&self, lab: &Lab) -> Result<Vec<String>, LabError> {
        let mut ended = Vec::new();
        for station in &self.stations {
            if station.state(lab)? == DaemonState::Ended {
                ended.push(station.name.clone());
            }
        }
        Ok(ended)
    }

    /// Changes the record of a lab under a lock.
    ///
    /// # Errors
    /// The lab was never completed; or the error of `change`, which leaves the record unchanged.
    pub(super) fn change<T>(lab: &Lab, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let folder = lab.folder();
        let lock = File::open(&folder).and_then(|folder| folder.lock().map(|()| folder));
        let _lock = lock.with_context(|| format!("cannot lock {}", folder.display()))?;
        let mut record = Self::load(lab)?;
        let changed = change(&mut record)?;
        record.save()?;
        Ok(changed)
    }

    /// Writes the record atomically.
    pub(super) fn save(&self) -> Result<()> {
        let file = self.folder.join(FILE);
        let draft = file.with_extension("tmp");
        let written = fs::write(&draft, serde_json::to_string_pretty(self)?);
        written.and_then(|()| fs::rename(&draft, &file)).with_context(|| format!("{}", file.display()))
    }

    /// Reads the record of a lab.
    ///
    /// # Errors
    /// The lab was never completed, or has been removed; or its record cannot be read.
    pub(crate) fn load(lab: &Lab) -> Result<Self> {
        let (folder, name) = (lab.folder(), lab.name().to_owned());
        let text = match fs::read_to_string(folder.join(FILE)) {
            Err(_) if !folder.exists() => return Err(LabError::NoLab(name).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LabError::Incomplete(name).into());
            }
            text => text.with_context(|| format!("cannot read {}", folder.join(FILE).display()))?,
        };
        Ok(serde_json::from_str(&text)?)
    }

    pub(crate) fn print(&self, json: bool) -> Result<()> {
        if json { output::print(serde_json::to_string(self)?) } else { output::print(self.text()) }
    }

    /// Returns a table of the stations.
    pub(crate) fn table(&self) -> Table {
        let mut table = output::table(&[
            "station",
            "runs",
            "process",
            "network namespace",
            "management",
            "data interfaces",
        ]);
        for station in &self.stations {
            table.add_row([
                station.name.clone(),
                station.daemon.clone(),
                station.process.map_or_else(String::new, |process| process.to_string()),
                station.namespace.clone(),
                station.management_address.to_string(),
                station.interfaces.join(" "),
            ]);
        }
        table
    }

    fn text(&self) -> String {
        let table = self.table();
        let named = name_option(&self.name);
        let page = self.page.as_ref().map_or_else(String::new, |url| format!("see it   {url}\n"));
        let down = if self.name == DEFAULT_NAME { String::new() } else { format!(" {}", self.name) };
        format!(
            "{table}\n\
             lab {} is up: topology {}, job {} with {} workers, server on {}\n\
             {page}logs     tributary lab logs{named}\n\
             use it   tributary lab run{named} -- tributary allreduce --size 1MiB --check\n\
             look in  tributary lab counters{named}; tributary lab exec{named} NODE -- sh\n\
             end it   tributary lab down{down}",
            self.name,
            self.topology,
            self.job,
            self.workers.len(),
            self.server,
        )
    }
}

impl StationRecord {
    /// Returns the present state of the station's daemon.
    ///
    /// # Errors
    /// The lab does not have this station any more.
    pub(crate) fn state(&self, lab: &Lab) -> Result<DaemonState, LabError> {
        Ok(match (&self.launch, self.process) {
            (None, _) => DaemonState::None,
            (_, None) => DaemonState::Killed,
            (_, Some(process)) if lab.runs(&self.name, process)? => DaemonState::Up,
            _ => DaemonState::Ended,
        })
    }
}

fn station(
    lab: &Lab,
    topology: &Topology,
    daemons: &Daemons<'_>,
    name: &str,
) -> Result<StationRecord, LabError> {
    let key = topology.find(name);
    let daemon = match key.and_then(|key| topology.get(key)) {
        None => "controller",
        Some(node) if node.switch().is_some() => {
            match (SwitchKind::for_daemons(topology), daemons.switches()) {
                (SwitchKind::Bridge, _) => "kernel bridge",
                (SwitchKind::None, SwitchProgram::Embedded) => "switch",
                (SwitchKind::None, SwitchProgram::Bmv2) => "BMv2",
            }
        }
        Some(_) if topology.servers().first() == key.as_ref() => SERVER,
        Some(_) if key.is_some_and(|key| topology.workers().contains(&key)) => "agent",
        Some(_) => "",
    };
    let interfaces = lab.interfaces(name)?.iter().map(|interface| interface.name.clone()).collect();
    Ok(StationRecord {
        name: name.to_owned(),
        daemon: daemon.to_owned(),
        namespace: lab.namespace(name)?.to_owned(),
        management_address: lab.management_address(name)?,
        interfaces,
        log: log_file(&lab.folder(), name),
        launch: None,
        process: None,
        slow: None,
    })
}
