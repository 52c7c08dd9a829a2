//! A lab, from up to down.

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
    /// Makes the lab. If that fails, everything is removed.
    ///
    /// # Errors
    /// [`LabError::NotPermitted`] without root's rights; bad options; [`LabError::Exists`];
    /// [`LabError::MissingTool`]; or the step that failed.
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
            // The caller can act on the first error, not on this one.
            let _ = remove(&records, &options.name);
            return Err(error);
        }
        Ok(Self { record, owned: true })
    }

    /// Finds a lab that this or another process made, and waits for it if it is being made.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; [`LabError::Incomplete`] when the process that made it died before it was done; or its
    /// record cannot be read.
    pub fn open(name: &str) -> Result<Self, LabError> {
        check_name(name)?;
        match Records::lock()?.load(name)? {
            Some(record) if record.complete => Ok(Self { record, owned: false }),
            Some(_) => Err(LabError::Incomplete(name.into())),
            None => Err(LabError::NoLab(name.into())),
        }
    }

    /// Removes a lab by its name, even one of another process or the remains of a crash.
    /// It ends all processes in the lab, the controller first (SIGTERM, 2 seconds later SIGKILL), then removes its
    /// namespaces with everything in them, and its [`folder`](Self::folder).
    ///
    /// # Errors
    /// [`LabError::NoLab`] when there is nothing of that name; [`LabError::NotPermitted`];
    /// [`LabError::StuckProcesses`]; [`LabError::RestartedProcesses`]; or the step that failed, after which the call
    /// can be repeated.
    pub fn clean(name: &str) -> Result<(), LabError> {
        check_name(name)?;
        check_rights()?;
        if remove(&Records::lock()?, name)? { Ok(()) } else { Err(LabError::NoLab(name.into())) }
    }

    /// The names of all labs on this machine, including those that a crash left, in alphabetical order.
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

    /// Removes the lab, as [`clean`](Self::clean) does. Succeeds if the lab is gone already.
    ///
    /// # Errors
    /// As for [`clean`](Self::clean).
    pub fn down(mut self) -> Result<(), LabError> {
        self.owned = false;
        match Self::clean(&self.record.name) {
            Err(LabError::NoLab(_)) => Ok(()),
            result => result,
        }
    }

    /// Keeps the lab after this value and this process end, until [`clean`](Self::clean).
    pub fn keep(mut self) {
        self.owned = false;
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Returns true if the kernel may carry many frames as one: see [`LabOptions::offloads`].
    pub fn has_offloads(&self) -> bool {
        self.record.offloads
    }

    /// A folder that only root can open, for files of the lab's programs: logs, sockets, tokens.
    /// It is removed with the lab.
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

    /// A node's interfaces on the data network, by port; the controller has none.
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

    /// A command that runs `program` at a station; add arguments as usual.
    /// The child is the program itself, so that its handle waits for it and kills it. Its `/sys` shows the station's
    /// interfaces, `TRIBUTARY_LAB` has the lab's name, a node's name is its host name, and the names of all nodes
    /// resolve. Processes that it leaves running end with the lab.
    ///
    /// It is started by `ip` and `sh` (and `taskset`, where programs are [pinned](LabOptions::pinned)): if the program
    /// does not exist, the child fails with a message on standard error, but `spawn` succeeds.
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

    /// A command outside of all stations; its processes end with the lab, too.
    pub fn command_beside(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env(LAB_VARIABLE, self.name());
        command
    }

    /// Returns true if a process runs at a station.
    /// `false` if it has ended, even if its id was reused elsewhere.
    ///
    /// # Errors
    /// [`LabError::NoStation`].
    pub fn runs(&self, station: &str, process: u32) -> Result<bool, LabError> {
        Ok(processes::runs_in(process, self.namespace(station)?))
    }

    /// Returns true if a process of [`command_beside`](Self::command_beside) runs.
    pub fn runs_beside(&self, process: u32) -> bool {
        processes::is_of(process, self.name())
    }

    /// Kills a process at a station (SIGKILL), and waits for its end.
    /// `false`: it did not run there any more.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::StuckProcesses`].
    pub fn kill(&self, station: &str, process: u32) -> Result<bool, LabError> {
        processes::kill_in(process, self.name(), self.namespace(station)?)
    }

    /// Ends a process of [`command_beside`](Self::command_beside) (SIGTERM, 2 seconds later SIGKILL), and
    /// waits for its end. `false`: it did not run any more.
    ///
    /// # Errors
    /// [`LabError::StuckProcesses`].
    pub fn end_beside(&self, process: u32) -> Result<bool, LabError> {
        processes::end_of(process, self.name())
    }

    /// Slows down all processes at a station, including those that start meanwhile, by letting them run
    /// only part of the time. Returns when the sender of `end` sends something or is gone, or the lab is gone. Gives
    /// the calling thread the highest priority that it may have.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when its namespace is gone.
    pub fn slow_down(&self, station: &str, slowdown: Slowdown, end: &Receiver<()>) -> Result<(), LabError> {
        slow::slow_down(self.namespace(station)?, slowdown, end)
    }

    /// Lets all processes at a station run: a killed [`slow_down`](Self::slow_down) may
    /// have left them stopped.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when its namespace is gone.
    pub fn wake(&self, station: &str) -> Result<(), LabError> {
        slow::wake(self.namespace(station)?)
    }

    /// All links in their present state, in the topology file's order.
    ///
    /// # Errors
    /// [`LabError::NoLab`]; or the lab's record cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, LabError> {
        Ok(self.reload(&Records::lock()?)?.links)
    }

    /// Cuts a link. `link` names its two nodes, as `A-B` or `A:B`, or an interface at one of its ends.
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::IsCut`]; or the step that failed, after which
    /// [`repair`](Self::repair) undoes the rest.
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
        // Recorded first, so that every step after it can be undone.
        records.save(&record)?;
        setup::cut(&self.record, &cut, how)?;
        Ok(cut)
    }

    /// Repairs a link, named as for [`cut`](Self::cut).
    ///
    /// # Errors
    /// [`LabError::NoLink`], [`LabError::SeveralLinks`], [`LabError::NotCut`]; or the step that failed, after which the
    /// call can be repeated.
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

    /// Takes an interface at a station down or up, as `ip link set` does.
    /// Unlike a [`cut`](Self::cut) this is not recorded.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; or the step that failed, for example with an unknown interface.
    pub fn set_interface(&self, station: &str, interface: &str, up: bool) -> Result<(), LabError> {
        setup::set_interface(&self.record, station, interface, if up { "up" } else { "down" })
    }

    fn reload(&self, records: &Records) -> Result<Record, LabError> {
        records.load(self.name())?.ok_or_else(|| LabError::NoLab(self.name().into()))
    }

    /// Calls `work` on a thread of its own at a station, and waits for it.
    /// Sockets that `work` opens, such as a packet socket on one of the interfaces, belong to the station and stay so
    /// on any thread. The kernel keeps a removed namespace until the last of them is closed. A panic of `work` is
    /// passed on.
    ///
    /// # Errors
    /// [`LabError::NoStation`]; [`LabError::Namespace`] when the namespace is gone or root's rights are
    /// missing.
    pub fn inside<T: Send>(&self, station: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        namespace::inside(self.namespace(station)?, work)
    }

    fn station(&self, name: &str) -> Result<&Station, LabError> {
        self.record.station(name)
    }
}

/// Removes a lab that this value owns.
/// Errors are lost: call [`Lab::down`] to see them; [`Lab::clean`] can try again.
impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            let _ = Self::clean(&self.record.name);
        }
    }
}

/// Returns whether there was anything to remove.
/// The record goes last, so that the lab is listed as long as something is left.
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

/// Returns true if this process may make network namespaces and interfaces in them.
pub(crate) fn has_rights() -> bool {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    let held = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    held.contains(needed)
}
