//! What is where in a lab that is up, for people, and for the commands that use it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tributary_lab::{CONTROLLER, Daemons, Lab, LabError, SwitchKind, SwitchProgram};
use tributary_topology::{NodeKey, Topology};

use super::background::log_file;
use super::{DEFAULT_NAME, job::JobOptions};
use crate::output;

/// Written when all is up: a lab without it was left by a crash.
const FILE: &str = "fabric.json";
/// A lab is made for one job; more can be made by hand.
const JOB: &str = "lab";

/// A fabric that is up.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    name: String,
    topology: String,
    /// Logs, sockets and the token are in it.
    pub(crate) folder: PathBuf,
    pub(super) controller: SocketAddrV4,
    pub(crate) job: String,
    pub(crate) token_file: PathBuf,
    pub(super) job_options: JobOptions,
    /// The host of the aggregation server.
    pub(super) server: String,
    /// In rank order.
    pub(crate) workers: Vec<Worker>,
    stations: Vec<StationRecord>,
}

/// A rank of the job.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Worker {
    pub(crate) host: String,
    /// Its agent's.
    pub(crate) socket: PathBuf,
}

/// One namespace.
#[derive(Debug, Serialize, Deserialize)]
struct StationRecord {
    name: String,
    daemon: String,
    namespace: String,
    management_address: Ipv4Addr,
    interfaces: Vec<String>,
    log: PathBuf,
    /// Its daemon's id; none where there is no daemon, and of the server, which comes and goes with its job.
    process: Option<u32>,
}

impl Record {
    /// What `lab` is going to be.
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
        let workers = workers.iter().filter_map(name);
        Ok(Self {
            name: lab.name().to_owned(),
            topology: topology.name().to_owned(),
            controller: daemons.controller_address()?,
            job: JOB.to_owned(),
            token_file: folder.join(format!("{JOB}.token")),
            job_options,
            server: server.context("the topology has no host with role = \"server\"")?,
            workers: workers.map(|host| Worker { socket: daemons.socket(&host), host }).collect(),
            stations: lab
                .stations()
                .map(|name| station(lab, topology, daemons, name))
                .collect::<Result<_, _>>()?,
            folder,
        })
    }

    /// Takes down which process the daemon at a station is.
    pub(super) fn started(&mut self, name: &str, process: u32) {
        for station in self.stations.iter_mut().filter(|station| station.name == name) {
            station.process = Some(process);
        }
    }

    /// The stations whose daemons have ended although nobody took the lab down.
    pub(super) fn ended(&self, lab: &Lab) -> Result<Vec<String>, LabError> {
        let mut ended = Vec::new();
        for station in &self.stations {
            if let Some(process) = station.process
                && !lab.runs(&station.name, process)?
            {
                ended.push(station.name.clone());
            }
        }
        Ok(ended)
    }

    /// Says that all of it is up.
    pub(super) fn save(&self) -> Result<()> {
        let file = self.folder.join(FILE);
        let draft = file.with_extension("tmp");
        let written = fs::write(&draft, serde_json::to_string_pretty(self)?);
        written.and_then(|()| fs::rename(&draft, &file)).with_context(|| format!("{}", file.display()))
    }

    /// # Errors
    /// The lab was never finished.
    pub(super) fn load(lab: &Lab) -> Result<Self> {
        let incomplete = || LabError::Incomplete(lab.name().to_owned());
        let text = fs::read_to_string(lab.folder().join(FILE)).map_err(|_| incomplete())?;
        Ok(serde_json::from_str(&text)?)
    }

    pub(super) fn print(&self, json: bool) -> Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
        } else {
            println!("{}", self.text());
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut table =
            output::table(&["station", "runs", "network namespace", "management", "data interfaces"]);
        for station in &self.stations {
            table.add_row([
                station.name.clone(),
                station.daemon.clone(),
                station.namespace.clone(),
                station.management_address.to_string(),
                station.interfaces.join(" "),
            ]);
        }
        let (named, down) = match self.name.as_str() {
            DEFAULT_NAME => (String::new(), String::new()),
            name => (format!(" --name {name}"), format!(" {name}")),
        };
        format!(
            "{table}\n\
             lab {} is up: topology {}, job {} with {} workers, server on {}\n\
             logs     {}/*.log\n\
             use it   tributary lab run{named} -- tributary allreduce --size 1MiB --check\n\
             look in  ip netns exec tributary.{}.{CONTROLLER} tributary counters --controller {}\n\
             end it   tributary lab down{down}",
            self.name,
            self.topology,
            self.job,
            self.workers.len(),
            self.server,
            self.folder.display(),
            self.name,
            self.controller,
        )
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
        Some(_) if topology.servers().first() == key.as_ref() => "server",
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
        process: None,
    })
}
