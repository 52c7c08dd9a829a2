//! The process that holds a user's namespaces.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::thread;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};
use rustix::process::{getgid, getuid, setsid};
use rustix::stdio::dup2_stdin;
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::place;
use super::refusal::{self, Refusal};

/// The line that the holder prints when its namespaces can be entered; otherwise it prints the reason.
pub(super) const READY: &str = "ready";

const RUN: &str = "/run";
/// The folder that shows the former content of `/run`.
const OUTSIDE: &str = "/run/.outside";
/// Folders that labs keep in `/run`. A rootless lab does not see these folders of the machine, because
/// it has its own.
const OWN: [&str; 2] = ["netns", "tributary"];

/// Creates a user's namespaces and holds them until SIGTERM.
///
/// The holder reports the result to its parent, [`enter`](super::enter), on standard output. Its
/// standard input is the lock of the user's folder; the holder closes it after the report.
///
/// # Errors
/// The namespaces cannot be created, or the parent process has ended.
pub fn hold(folder: &Path) -> io::Result<Infallible> {
    match make(folder) {
        Ok(_lock) => {
            tell(READY)?;
            dup2_stdin(File::open("/dev/null")?)?;
            loop {
                thread::park();
            }
        }
        Err(refusal) => {
            tell(&refusal::explain(&refusal))?;
            Err(refusal.reason)
        }
    }
}

fn tell(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

fn make(folder: &Path) -> Result<File, Refusal> {
    // Without a session of its own, the holder would end with the terminal.
    setsid().map_err(Refusal::at("start a session"))?;
    let mut lock = place::become_holder(folder).map_err(Refusal::at("lock the user's folder"))?;
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    unshare().map_err(Refusal::at("make a user namespace"))?;
    let map = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    // The kernel requires this. Otherwise a process could drop a group and then open files to which
    // the group has no access.
    map("setgroups", "deny".into()).map_err(Refusal::at("give groups up"))?;
    map("uid_map", format!("0 {user} 1")).map_err(Refusal::at("become root in a user namespace"))?;
    map("gid_map", format!("0 {group} 1")).map_err(Refusal::at("become root in a user namespace"))?;
    make_run().map_err(Refusal::at("mount a /run of its own"))?;
    // The loopback interface is set up, because programs may use it outside, too. If `ip` is missing, the
    // lab reports it later.
    let lo = ["link", "set", "dev", "lo", "up"];
    let _ = Command::new("ip").args(lo).stdout(Stdio::null()).stderr(Stdio::null()).status();
    write!(lock, "{}", process::id()).map_err(Refusal::at("write to the user's folder"))?;
    Ok(lock)
}

#[allow(unsafe_code, reason = "no safe interface has it")]
fn unshare() -> io::Result<()> {
    let namespaces = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET;
    // SAFETY: only UnshareFlags::FILES is unsafe, and it is not among them.
    Ok(unsafe { unshare_unsafe(namespaces) }?)
}

/// Mounts an empty `/run` with links to its former content, because some distributions have programs
/// there.
fn make_run() -> io::Result<()> {
    // Later mounts outside become visible here. Mounts in this namespace stay invisible outside.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let copy =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let before = open_tree(CWD, RUN, copy)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tributary", RUN, "tmpfs", flags, Some(c"mode=755"))?;
    fs::create_dir(OUTSIDE)?;
    move_mount(&before, "", CWD, OUTSIDE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    for entry in fs::read_dir(OUTSIDE)? {
        let name = entry?.file_name();
        if !OWN.iter().any(|own| name == *own) {
            symlink(Path::new(OUTSIDE).join(&name), Path::new(RUN).join(&name))?;
        }
    }
    Ok(())
}
