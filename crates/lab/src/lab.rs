//! A lab, from its creation to its removal.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::Receiver;

use rustix::thread::{CapabilitySet, capabilities};
use tributary_topology::Topology;

use crate::error::LabError;
use crate::host_names;
use crate::links::{self, Cut, Link};
use crate::names;
use crate::namespace;
use crate::options::LabOptions;
use crate::processes;
use crate::record::{self, Record, Records};
use crate::setup;
use crate::slow::{self, Slowdown};
use crate::station::{self, CONTROLLER, Interface, Station};
use crate::tools::{self, LAB_VARIABLE};

/// An emulated network on this machine.
///
/// A value from [`up`](Self::up) removes the lab when it is dropped; a value from [`open`](Self::open) only uses the
/// lab.
#[derive(Debug)]
pub struct Lab {
    record: Record,
    /// True if dropping this value removes the lab.
    owned: bool,
}

impl Lab {
    /// Creates the lab. If that fails, removes everything again.
    ///
    /// # Errors
    /// [`LabError::NotPermitted`] without root privileges; invalid options; [`LabError::Exists`];
    /// [`LabError::MissingTool`]; or the error of the step that failed.
    pub fn up(topology: &Topology, options: &LabOptions) -> Result<Self, LabError> {
        options.check()?;
        check_rights()?;
        let stations = station::stations(options, topology)?;
        let records = Records::lock()?;
        if records.contains(&options.name) || !namespace::of_lab(&options.name)?.is_empty() {
            return Err(LabError::Exists(options.name.clone()));
        }
        let name = options.name.clone();
        let mut record =
            Record { name, complete: false, stations, links: Link::of(topology), offloads: options.offloads };
        let made = records
            .save(&record)
            .and_then(|()| records.make_folder(&options.name))
            .and_then(|()| host_names::write(&options.name, topology, &record.stations))
            .and_then(|()| setup::make(topology, options, &record.stations));
        record.complete = true;
        if let Err(error) = made.and_then(|()| records.save(&record)) {
            // An error of the removal is dropped, because the first error is the one that the caller can act
            // on.
            let _ = remove(&records, &options.name);
            return Err(error);
        }
        Ok(Self { record, owned: true })
    }

    /// Finds a lab that any process created. If the lab is still being created, waits until it is complete.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; [`LabError::Incomplete`] if its creator ended before the lab was complete; or
    /// its record cannot be read.
    pub fn open(name: &str) -> Result<Self, LabError> {
        check_name(name)?;
        match Records::lock()?.load(name)? {
            Some(record) if record.complete => Ok(Self { record, owned: false }),
            Some(_) => Err(LabError::Incomplete(name.into())),
            None => Err(LabError::NoLab(name.into())),
        }
    }

    /// Removes the lab with this name, even if another process created it or a crash left it.
    ///
    /// Ends all processes in the lab, the controller first (SIGTERM, 2 seconds later SIGKILL). Then removes
    /// its namespaces with all their content, and its [`folder`](Self::folder).
    ///
    /// # Errors
    /// [`LabError::NoLab`] if nothing with this name exists; [`LabError::NotPermitted`];
    /// [`LabError::StuckProcesses`]; [`LabError::RestartedProcesses`]; or the error of the step that
    /// failed, after which the call can be repeated.
    pub fn clean(name: &str) -> Result<(), LabError> {
        check_name(name)?;
        check_rights()?;
        if remove(&Records::lock()?, name)? { Ok(()) } else { Err(LabError::NoLab(name.into())) }
    }

    /// Returns the names of all labs on this machine in alphabetical order, including labs that a crash
    /// left.
    ///
    /// # Errors
    /// The record of the labs cannot be read.
    pub fn list() -> Result<Vec<String>, LabError> {
        let mut names = Records::lock()?.names()?;
        names.extend(namespace::all()?.into_iter().map(|(lab, _)| lab));
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Removes the lab, as [`clean`](Self::clean) does. Succeeds if the lab has been removed already.
    ///
    /// # Errors
    /// The errors of [`clean`](Self::clean).
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        match Self::clean(&self.record.name) {
            Err(LabError::NoLab(_)) => Ok(()),
            result => result,
        }
    }

    /// Keeps the lab when this value is dropped and this process ends, until [`clean`](Self::clean) removes
    /// it.
    pub fn keep(mut self) {
        self.owned = false;
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Returns true if the kernel may pass several frames as one: see [`LabOptions::offloads`].
    pub fn has_offloads(&self) -> bool {
        self.record.offloads
    }

    /// Returns the folder for files of the lab's programs: logs, sockets, tokens. Only root can open it. It
    /// is removed with the lab.
    pub fn folder(&self) -> PathBuf {
        record::folder(self.name())
    }

    /// Returns the names of all stations: [`CONTROLLER`], then the nodes in the topology's order.
    pub fn stations(&self) -> impl Iterator<Item = &str> {
        self.record.stations.iter().map(|station| station.name.as_str())
    }

    /// Returns the name of a station's network namespace, for `ip netns`.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn namespace(&self, station: &str) -> Result<&str, LabError> {
        Ok(&self.station(station)?.namespace)
    }

    /// Returns a node's interfaces on the data network, by port; the controller has none.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn interfaces(&self, station: &str) -> Result<&[Interface], LabError> {
        Ok(&self.station(station)?.interfaces)
    }

    /// Returns a station's address on the management network (interface `mgmt0`, 10.255.0.0/16).
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn management_address(&self, station: &str) -> Result<Ipv4Addr, LabError> {
        Ok(self.station(station)?.management)
    }

    /// Returns a command that runs `program` at a station; the caller can add arguments.
    ///
    /// The child process becomes the program itself, so its handle can wait for it and kill it. The
    /// program's `/sys` shows the station's interfaces. `TRIBUTARY_LAB` contains the lab's name, the host
    /// name is the node's name, and the names of all nodes resolve. Processes that the program leaves
    /// running end with the lab.
    ///
    /// `ip` and `sh` start the program, and `taskset` if programs are [pinned](LabOptions::pinned). So if
    /// the program does not exist, `spawn` succeeds, and the child fails with a message on standard error.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn command(&self, station: &str, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let Station { namespace, processor, .. } = self.station(station)?;
        let mut command = match processor {
            Some(processor) => tools::on_processor(*processor, "ip"),
            None => Command::new("ip"),
        };
        command.args(["netns", "exec", namespace]).env(LAB_VARIABLE, self.name());
        if station != CONTROLLER {
            host_names::add_to(&mut command, self.name(), station);
        }
        command.arg(program);
        Ok(command)
    }

    /// Returns a command that runs outside of all stations. Its processes also end with the lab.
    pub fn command_beside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(LAB_VARIABLE, self.name());
        command
    }

    /// Returns true if the process runs at the station. A process elsewhere that reuses the id of an ended
    /// process does not count.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn runs(&self, station: &str, process: u32) -> Result<bool, LabError> {
        Ok(processes::runs_in(process, self.namespace(station)?))
    }

    /// Returns true if a process that [`command_beside`](Self::command_beside) started is running.
    pub fn runs_beside(&self, process: u32) -> bool {
        processes::is_of(process, self.name())
    }

    /// Kills a process at a station (SIGKILL), and waits for its end. Returns false if the process does not
    /// run there.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::StuckProcesses`].
    pub fn kill(&self, station: &str, process: u32) -> Result<bool, LabError> {
        processes::kill_in(process, self.name(), self.namespace(station)?)
    }

    /// Ends a process that [`command_beside`](Self::command_beside) started (SIGTERM, 2 seconds later
    /// SIGKILL), and waits for its end. Returns false if it was not running.
    ///
    /// # Errors
    /// [`LabError::StuckProcesses`].
    pub fn end_beside(&self, process: u32) -> Result<bool, LabError> {
        processes::end_of(process, self.name())
    }

    /// Slows down all processes at a station by stopping them part of the time, including processes that
    /// start meanwhile.
    ///
    /// Returns when the sender of `end` sends or is dropped, or when the lab has been removed. Gives the
    /// calling thread the highest priority that is permitted.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] if the station's namespace does not exist any more.
    pub fn slow_down(&self, station: &str, slowdown: Slowdown, end: &Receiver<()>) -> Result<(), LabError> {
        slow::slow_down(self.namespace(station)?, slowdown, end)
    }

    /// Continues all stopped processes at a station. A killed [`slow_down`](Self::slow_down) may have left
    /// them stopped.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] if the station's namespace does not exist any more.
    pub fn wake(&self, station: &str) -> Result<(), LabError> {
        slow::wake(self.namespace(station)?)
    }

    /// Returns all links in their present state, in the order of the topology's file.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; or the lab's record cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, LabError> {
        Ok(self.reload(&Records::lock()?)?.links)
    }

    /// Cuts a link. `link` names its two nodes, as `A-B` or `A:B`, or an interface at one of its ends.
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::IsCut`]; or the error of the step that
    /// failed. [`repair`](Self::repair) then undoes the steps that were done.
    pub fn cut(&self, link: &str, how: Cut) -> Result<Link, LabError> {
        let records = Records::lock()?;
        let mut record = self.reload(&records)?;
        let place = links::find(self.name(), &record.links, link)?;
        let link = &mut record.links[place];
        if link.cut.is_some() {
            return Err(LabError::IsCut(link.name.clone()));
        }
        link.cut = Some(how);
        let cut = link.clone();
        // The record is saved first, so that every later step can be undone.
        records.save(&record)?;
        setup::cut(&self.record, &cut, how)?;
        Ok(cut)
    }

    /// Repairs a link, named as in [`cut`](Self::cut).
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::NotCut`]; or the error of the step
    /// that failed, after which the call can be repeated.
    pub fn repair(&self, link: &str) -> Result<Link, LabError> {
        let records = Records::lock()?;
        let mut record = self.reload(&records)?;
        let place = links::find(self.name(), &record.links, link)?;
        let link = &mut record.links[place];
        let how = link.cut.ok_or_else(|| LabError::NotCut(link.name.clone()))?;
        setup::repair(&self.record, link, how)?;
        link.cut = None;
        let repaired = link.clone();
        records.save(&record)?;
        Ok(repaired)
    }

    /// Sets an interface at a station down or up, as `ip link set` does. Unlike a [`cut`](Self::cut), the
    /// change is not recorded.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; or the error of the step that failed, for example for an unknown interface.
    pub fn set_interface(&self, station: &str, interface: &str, up: bool) -> Result<(), LabError> {
        setup::set_interface(&self.record, station, interface, if up { "up" } else { "down" })
    }

    fn reload(&self, records: &Records) -> Result<Record, LabError> {
        records.load(self.name())?.ok_or_else(|| LabError::NoLab(self.name().into()))
    }

    /// Calls `work` on a new thread inside a station's namespace, and waits for it.
    ///
    /// Sockets that `work` opens, such as packet sockets on the interfaces, belong to the station, even if
    /// another thread uses them later. The kernel keeps a removed namespace until its last socket is
    /// closed. A panic of `work` is passed on.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] if the namespace does not exist any more or root
    /// privileges are missing.
    pub fn inside<T: Send>(&self, station: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        namespace::inside(self.namespace(station)?, work)
    }

    fn station(&self, name: &str) -> Result<&Station, LabError> {
        self.record.station(name)
    }
}

/// Removes the lab if this value owns it. Errors are dropped: [`Lab::down`] returns them, and
/// [`Lab::clean`] can try again.
impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            let _ = Self::clean(&self.record.name);
        }
    }
}

/// Removes a lab; returns true if any part of it existed. The record is removed last, so that the lab
/// stays listed while any part is left.
fn remove(records: &Records, name: &str) -> Result<bool, LabError> {
    let recorded = records.contains(name);
    let there = setup::remove(name)?;
    records.delete(name)?;
    Ok(recorded || there)
}

fn check_name(name: &str) -> Result<(), LabError> {
    if names::is_lab_name(name) { Ok(()) } else { Err(LabError::BadName(name.into())) }
}

fn check_rights() -> Result<(), LabError> {
    if has_rights() { Ok(()) } else { Err(LabError::NotPermitted) }
}

/// Returns true if this process may create network namespaces and interfaces in them.
pub(crate) fn has_rights() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    let held = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    held.contains(needed)
}
