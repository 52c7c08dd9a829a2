//! A lab, from up to down.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::Receiver;

use rustix::thread::{CapabilitySet, capabilities};
use tributary_topology::Topology;

use crate::error::LabError;
use crate::links::{self, Cut, Link};
use crate::names;
use crate::namespace;
use crate::options::LabOptions;
use crate::processes;
use crate::record::{self, Record, Records};
use crate::setup;
use crate::slow::{self, Slowdown};
use crate::station::{self, CONTROLLER, Interface, Station};
use crate::tools::LAB_VARIABLE;

/// An emulated network on this machine.
///
/// The one that [`up`](Self::up) returns removes the lab when it is dropped; one from [`open`](Self::open)
/// only uses it.
#[derive(Debug)]
pub struct Lab {
    record: Record,
    /// Whether the lab goes with this value.
    owned: bool,
}

impl Lab {
    /// Makes the lab. If that fails, nothing of it stays.
    ///
    /// # Errors
    /// [`LabError::NotPermitted`] without root's rights; bad options; [`LabError::Exists`];
    /// [`LabError::MissingTool`]; or the step that failed.
    pub fn up(topology: &Topology, options: &LabOptions) -> Result<Self, LabError> {
        options.check()?;
        check_rights()?;
        let stations = station::stations(&options.name, topology)?;
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
            .and_then(|()| setup::make(topology, options, &record.stations));
        record.complete = true;
        if let Err(error) = made.and_then(|()| records.save(&record)) {
            // What went wrong first is what the caller can act on.
            let _ = remove(&records, &options.name);
            return Err(error);
        }
        Ok(Self { record, owned: true })
    }

    /// Finds a lab that another process made, or this one, and waits for it if it is being made.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; [`LabError::Incomplete`] when whoever made it died before it was done; or its
    /// record cannot be read.
    pub fn open(name: &str) -> Result<Self, LabError> {
        check_name(name)?;
        match Records::lock()?.load(name)? {
            Some(record) if record.complete => Ok(Self { record, owned: false }),
            Some(_) => Err(LabError::Incomplete(name.into())),
            None => Err(LabError::NoLab(name.into())),
        }
    }

    /// Removes a lab by its name, whoever made it, and whatever a crash left of it: ends all processes in
    /// it, the controller first (SIGTERM, 2 seconds later SIGKILL), then removes its namespaces and all that
    /// is in them, and its [`folder`](Self::folder).
    ///
    /// # Errors
    /// [`LabError::NoLab`] when nothing of that name is there; [`LabError::NotPermitted`];
    /// [`LabError::StuckProcesses`]; or the step that failed, and then it can be tried again.
    pub fn clean(name: &str) -> Result<(), LabError> {
        check_name(name)?;
        check_rights()?;
        if remove(&Records::lock()?, name)? { Ok(()) } else { Err(LabError::NoLab(name.into())) }
    }

    /// The names of all labs on this machine, also of those that a crash left, in alphabetical order.
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

    /// Removes the lab, as [`clean`](Self::clean) does. One that is gone already is no error.
    ///
    /// # Errors
    /// As [`clean`](Self::clean).
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        match Self::clean(&self.record.name) {
            Err(LabError::NoLab(_)) => Ok(()),
            result => result,
        }
    }

    /// Lets the lab stay when this value and this process end, until [`clean`](Self::clean).
    pub fn keep(mut self) {
        self.owned = false;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Whether the kernel may carry many frames as one there: see [`LabOptions::offloads`].
    pub fn has_offloads(&self) -> bool {
        self.record.offloads
    }

    /// A folder that only root can open, for files of what runs in the lab: logs, sockets, tokens. It is
    /// removed with the lab.
    pub fn folder(&self) -> PathBuf {
        record::folder(self.name())
    }

    /// The names of all stations: [`CONTROLLER`], then the nodes in the topology's order.
    pub fn stations(&self) -> impl Iterator<Item = &str> {
        self.record.stations.iter().map(|station| station.name.as_str())
    }

    /// The name of a station's network namespace, for `ip netns`.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn namespace(&self, station: &str) -> Result<&str, LabError> {
        Ok(&self.station(station)?.namespace)
    }

    /// A node's interfaces on the data network, by port; none for the controller.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn interfaces(&self, station: &str) -> Result<&[Interface], LabError> {
        Ok(&self.station(station)?.interfaces)
    }

    /// A station's address on the management network (its interface `mgmt0`), 10.255.0.0/16.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn management_address(&self, station: &str) -> Result<Ipv4Addr, LabError> {
        Ok(self.station(station)?.management)
    }

    /// A command that runs `program` at a station; add arguments as usual. The child is the program itself,
    /// so its handle waits for it and kills it, and `/sys` shows it the station's interfaces. What it leaves
    /// running ends with the lab. It finds the lab's name in `TRIBUTARY_LAB`.
    ///
    /// It is started by `ip`: a program that does not exist is a child that fails, with a message on
    /// standard error, and not an error of `spawn`.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn command(&self, station: &str, program: impl AsRef<OsStr>) -> Result<Command, LabError> {
        let namespace = self.namespace(station)?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(program).env(LAB_VARIABLE, self.name());
        Ok(command)
    }

    /// A command outside of all stations; what it starts ends with the lab, too.
    pub fn command_beside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(LAB_VARIABLE, self.name());
        command
    }

    /// Whether a process runs at a station. It does not when it has ended, also when another process, elsewhere,
    /// got its id.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn runs(&self, station: &str, process: u32) -> Result<bool, LabError> {
        Ok(processes::runs_in(process, self.namespace(station)?))
    }

    /// Whether a process of [`command_beside`](Self::command_beside) runs.
    pub fn runs_beside(&self, process: u32) -> bool {
        processes::is_of(process, self.name())
    }

    /// Ends a process at a station at once (SIGKILL), and waits for its end. `false`: it did not run there any more.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::StuckProcesses`].
    pub fn kill(&self, station: &str, process: u32) -> Result<bool, LabError> {
        processes::kill_in(process, self.name(), self.namespace(station)?)
    }

    /// Ends a process of [`command_beside`](Self::command_beside) (SIGTERM, 2 seconds later SIGKILL), and waits for
    /// its end. `false`: it did not run any more.
    ///
    /// # Errors
    /// [`LabError::StuckProcesses`].
    pub fn end_beside(&self, process: u32) -> Result<bool, LabError> {
        processes::end_of(process, self.name())
    }

    /// Lets all processes at a station, also those that start meanwhile, run only a part of the time, so that they
    /// take as many times longer; until the sender of `end` says something or is gone, or the lab is. Gives the calling
    /// thread the highest priority that it may have.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when its namespace is gone.
    pub fn slow_down(&self, station: &str, slowdown: Slowdown, end: &Receiver<()>) -> Result<(), LabError> {
        slow::slow_down(self.namespace(station)?, slowdown, end)
    }

    /// Lets all processes at a station run: after [`slow_down`](Self::slow_down) was killed, it may have left them
    /// stopped.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when its namespace is gone.
    pub fn wake(&self, station: &str) -> Result<(), LabError> {
        slow::wake(self.namespace(station)?)
    }

    /// All links, in the topology file's order, as they are now.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; or the lab's record cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, LabError> {
        Ok(self.reload(&Records::lock()?)?.links)
    }

    /// Cuts a link, called `A-B` or `A:B` by its nodes, or by an interface at one of its ends.
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::IsCut`]; or the step that failed: then
    /// [`mend`](Self::mend) undoes what was done.
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
        // Written down first: whatever is done then can be undone.
        records.save(&record)?;
        setup::cut(self, &cut, how)?;
        Ok(cut)
    }

    /// Makes a link whole again; called as for [`cut`](Self::cut).
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::NotCut`]; or the step that failed: then it can
    /// be tried again.
    pub fn mend(&self, link: &str) -> Result<Link, LabError> {
        let records = Records::lock()?;
        let mut record = self.reload(&records)?;
        let place = links::find(self.name(), &record.links, link)?;
        let link = &mut record.links[place];
        let how = link.cut.ok_or_else(|| LabError::NotCut(link.name.clone()))?;
        setup::mend(self, link, how)?;
        link.cut = None;
        let mended = link.clone();
        records.save(&record)?;
        Ok(mended)
    }

    fn reload(&self, records: &Records) -> Result<Record, LabError> {
        records.load(self.name())?.ok_or_else(|| LabError::NoLab(self.name().into()))
    }

    /// Calls `work` on a thread of its own at a station, and waits for it: the sockets that it opens, such
    /// as a packet socket on one of the interfaces, are that station's and stay so on any thread. The
    /// kernel keeps a removed namespace until the last of them is closed. A panic of `work` is passed on.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when the namespace is gone or root's rights are
    /// missing.
    pub fn inside<T: Send>(&self, station: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        namespace::inside(self.namespace(station)?, work)
    }

    fn station(&self, name: &str) -> Result<&Station, LabError> {
        self.record.stations.iter().find(|station| station.name == name).ok_or_else(|| {
            let nodes: Vec<_> = self.stations().filter(|station| *station != CONTROLLER).collect();
            LabError::NoStation {
                lab: self.name().into(),
                station: name.into(),
                known: format!("{}, and {CONTROLLER}", nodes.join(", ")),
            }
        })
    }
}

/// Removes a lab that this value owns. An error is lost: call [`Lab::down`] to see it; [`Lab::clean`] can
/// try again.
impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            let _ = Self::clean(&self.record.name);
        }
    }
}

/// Tells whether there was anything to remove. The record goes last: as long as something is left, the lab
/// is listed.
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
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    let held = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    if held.contains(needed) { Ok(()) } else { Err(LabError::NotPermitted) }
}
