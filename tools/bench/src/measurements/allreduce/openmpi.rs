//! Open MPI: `mpirun` on the first worker, which starts a rank on each worker.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tributary_bench::compile::compile;
use tributary_lab::Lab;

use super::args::AllReduceArgs;
use super::timing::{self, Timing};
use crate::measurements::ranks::Rank;

const SOURCE: &str = include_str!("../../../baselines/openmpi.c");

/// Values travel by TCP, but not over the management network.
///
/// A rank that waits yields its processor, because there are more ranks than processors.
const TRANSPORT: [(&str, &str); 4] =
    [("pml", "ob1"), ("btl", "tcp,self"), ("btl_tcp_if_exclude", "lo,mgmt0"), ("mpi_yield_when_idle", "1")];
/// Control messages use the management network, and the first daemon starts all others.
const CONTROL: [(&str, &str); 2] = [("oob_tcp_if_include", "mgmt0"), ("plm_rsh_no_tree_spawn", "1")];
/// Selects the ring, which is algorithm 4 of `coll_tuned_allreduce_algorithm`.
const RING: [(&str, &str); 2] =
    [("coll_tuned_use_dynamic_rules", "1"), ("coll_tuned_allreduce_algorithm", "4")];

/// The compiled program, and the means to start it on the workers.
#[derive(Debug)]
pub(super) struct OpenMpi {
    program: PathBuf,
    /// The script that replaces ssh: it runs a command in a host's namespace.
    shell: PathBuf,
    /// The host of the first worker.
    first: String,
    /// The number of workers.
    ranks: usize,
    /// The workers' addresses on the management network, for `mpirun --host`.
    addresses: String,
    /// The number of turns that have begun.
    turns: u32,
}

impl OpenMpi {
    /// Compiles the program.
    pub(super) fn prepare(lab: &Lab, hosts: &[String]) -> Result<Self> {
        let folder = lab.folder();
        let program = compile("mpicc", &["-O2"], ("openmpi", SOURCE), &folder)?;
        let first = hosts.first().context("the topology has no workers")?.clone();
        let addresses = hosts.iter().map(|host| lab.management_address(host));
        let addresses = addresses.map(|address| address.map(|address| format!("{address}:1")));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?.join(",");
        let shell = write_shell(lab, &folder, hosts)?;
        Ok(Self { program, shell, first, ranks: hosts.len(), addresses, turns: 0 })
    }

    /// Runs one turn, by the algorithm that Open MPI chooses, or by a ring if `ring` is true.
    pub(super) async fn turn(&mut self, lab: &Lab, args: &AllReduceArgs, ring: bool) -> Result<Vec<Timing>> {
        // By default the daemons share a folder in /tmp, because all stations have this machine's name. A
        // daemon that ends would remove the folder while another daemon starts, and mpirun would then wait
        // forever.
        self.turns += 1;
        let sessions = lab.folder().join(format!("mpi{}", self.turns));
        fs::create_dir(&sessions)
            .with_context(|| format!("cannot make the folder {}", sessions.display()))?;
        let mut command = lab.command(&self.first, "mpirun")?;
        command
            .env("TMPDIR", &sessions)
            .args(["--allow-run-as-root", "-n", &self.ranks.to_string(), "--host", &self.addresses])
            .args(["--mca", "plm_rsh_agent"])
            .arg(&self.shell);
        let algorithm = RING.iter().filter(|_| ring);
        for (parameter, value) in TRANSPORT.iter().chain(&CONTROL).chain(algorithm) {
            command.args(["--mca", parameter, value]);
        }
        command.arg(&self.program).args([args.elements().to_string(), args.iterations.to_string()]);
        let line = Rank::start("mpirun", command)?.only_line().await?;
        timing::of_all([line.as_str()], args.iterations)
    }
}

/// Writes a script that runs a command in the namespace of an address, as `ssh ADDRESS COMMAND` would.
fn write_shell(lab: &Lab, folder: &Path, hosts: &[String]) -> Result<PathBuf> {
    let mut script = "#!/bin/sh\naddress=$1\nshift\ncase $address in\n".to_owned();
    for host in hosts {
        let (address, shell) = (lab.management_address(host)?, lab.command(host, "sh")?);
        let words: Vec<_> = [shell.get_program()].into_iter().chain(shell.get_args()).collect();
        // The words are numbers and names of a lab, which need no quotes.
        let _ = writeln!(script, "{address}) enter='{}' ;;", words.join(OsStr::new(" ")).display());
    }
    script.push_str("*) echo \"no worker is at $address\" >&2; exit 1 ;;\nesac\n");
    script.push_str("export TMPDIR=\"$TMPDIR/$address\"\nmkdir -p \"$TMPDIR\" || exit 1\n");
    script.push_str("exec $enter -c \"$*\"\n");
    let path = folder.join("openmpi-shell");
    fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o700)))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
