//! Tests of Tributary in Mininet. They need root, Mininet, and for BMv2 `simple_switch_grpc`. If these
//! are missing, the tests print that they are skipped.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use tributary_testkit::binary::{left_shared_memory, stderr};
use tributary_testkit::root;

/// The path of Debian's Python, which can import Debian's Mininet.
const PYTHON: &str = "/usr/bin/python3";
/// Messages that `run.py` prints if it cannot run.
const CANNOT_RUN: [&str; 3] = ["Mininet needs root", "has no Mininet", "cannot find `"];

/// A folder for all files of one network. The network's processes have its path in their environment,
/// so a test can find everything that the network leaves behind.
struct Traces(TempDir);

impl Traces {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Returns the command that runs `mininet/run.py` with these options on the smallest topology.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(PYTHON);
        command
            .args(["mininet/run.py", "--topology", "topologies/two-workers.toml", "--binary"])
            .arg(env!("CARGO_BIN_EXE_tributary"))
            .args(options)
            .current_dir(root())
            .env("TMPDIR", self.0.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Checks that no files and processes are left. Namespaces and interfaces disappear with their
    /// processes.
    fn assert_none(&self) {
        let files = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut left: Vec<_> = files.map(|file| file.display().to_string()).collect();
        let mark = format!("TMPDIR={}\0", self.0.path().display());
        for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
            // Kernel threads have no environment, and some processes end meanwhile.
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&mark) {
                left.push(process.display().to_string());
            }
        }
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(left_shared_memory(), Vec::<String>::new());
    }
}

/// Returns true if Mininet can run here; otherwise prints the reason.
fn can_run() -> bool {
    let Ok(probe) = Traces::new().command(&["--binary", "/none"]).output() else {
        eprintln!("SKIPPED: there is no {PYTHON}");
        return false;
    };
    let said = stderr(&probe);
    let can = !CANNOT_RUN.iter().any(|words| said.contains(words));
    if can {
        assert!(said.contains("there is no tributary at /none"), "{said}");
    } else {
        eprintln!("SKIPPED: {said}");
    }
    can
}

/// Runs everything that `--run` does, with this kind of switch.
fn pings_and_reduces(switch: &str) {
    let traces = Traces::new();
    let options = ["--switch", switch, "--run", "--json", "--size", "256KiB", "--iterations", "2"];
    let output = traces.command(&options).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["switch"], switch);
    assert_eq!(results["ping"], serde_json::json!({ "sent": 6, "received": 6 }));
    assert_eq!(results["tcp"]["bytes"], 1 << 20);
    let reports = results["allreduce"].as_array().unwrap();
    let hosts: Vec<_> = reports.iter().map(|report| (&report["host"], &report["checked"])).collect();
    assert_eq!(hosts, [(&"w0".into(), &true.into()), (&"w1".into(), &true.into())]);
    // Two operations of 256 SUM slices, each with one MAX slice for every 256 of them.
    let completed = &results["counters"]["switches"][0]["jobs"]["mininet"]["completed"]["packets"];
    assert!(completed.as_u64().unwrap() >= 2 * 257, "{results}");
    traces.assert_none();
}

#[test]
fn hosts_ping_talk_and_reduce_through_the_embedded_switch() {
    if can_run() {
        pings_and_reduces("softswitch");
    }
}

#[test]
fn hosts_ping_talk_and_reduce_through_bmv2() {
    if Command::new("simple_switch_grpc").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no `simple_switch_grpc` on the PATH: install BMv2 (docs/bmv2.md)");
    } else if can_run() {
        pings_and_reduces("bmv2");
    }
}

#[test]
fn in_the_prompt_things_go_wrong_and_right_again_hosts_reduce_and_nothing_stays() {
    if !can_run() {
        return;
    }
    let traces = Traces::new();
    let mut prompt = traces
        .command(&[])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let commands = "w0 tributary jobs list --controller 10.255.0.1:29810\n\
                    allreduce --size 4KiB --check\n\
                    switch leaf stop\n\
                    switch leaf start\n\
                    kill leaf w0 ps\n\
                    kill leaf\n\
                    kill w9\n\
                    start w0 leaf\n\
                    start leaf\n\
                    cut w0:leaf\n\
                    w0 ping -c 1 -W 1 w1\n\
                    repair leaf-w0\n\
                    repair leaf-w0\n\
                    cut leaf-w9\n\
                    w0 ping -c 1 -w 20 w1\n\
                    allreduce --size nonsense\n\
                    allreduce --size 8KiB --check\n\
                    w1 setsid sleep 1000 &\n\
                    exit\n";
    prompt.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = prompt.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for words in [
        "rank 0: 4096 bytes",
        "rank 1: 4096 bytes",
        "*** Error: leaf does not run",
        "*** Error: there is no daemon at 'w9': give one of leaf, w0, w1, ps, c0",
        "*** Error: leaf runs already",
        "1 packets transmitted, 0 received",
        "*** Error: link leaf-w0 is not cut",
        "*** Error: there is no link 'leaf-w9'",
        "64 bytes from 10.0.0.3",
        "*** Error: the command failed on w0: ",
        "rank 0: 8192 bytes",
        "rank 1: 8192 bytes",
    ] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    traces.assert_none();
}

#[test]
fn stopped_in_the_middle_of_an_all_reduce_it_leaves_nothing() {
    if !can_run() {
        return;
    }
    let traces = Traces::new();
    let mut run = traces.command(&["--run", "--size", "1GiB"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("*** All-reduce: 1GiB over 2 hosts")));
    Command::new("kill").args(["-TERM", &run.id().to_string()]).status().unwrap();
    let said: Vec<_> = lines.map(|line| line.unwrap()).collect();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{said:?}");
    assert!(said.iter().any(|line| line == "error: stopped by a signal"), "{said:?}");
    traces.assert_none();
}

#[test]
fn wrong_use_is_refused() {
    let refused = |options: &[&str], words: &str| {
        let output = Traces::new().command(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    if Command::new(PYTHON).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no {PYTHON}");
        return;
    }
    refused(&["--switch", "cardboard"], "softswitch");
    refused(&["--rate", "0"], "--rate");
    refused(&["--run", "--size", "much"], "--size");
    refused(&["--json"], "--run");
}

#[test]
fn the_port_to_the_controller_is_that_of_the_program() {
    let switches = fs::read_to_string(root().join("mininet/switches.py")).unwrap();
    let line = format!("CPU_PORT = {}", tributary_wire::constants::CPU_PORT);
    assert!(switches.lines().any(|found| found == line), "mininet/switches.py has no line {line:?}");
}

/// A folder with a copy of the BMv2 wrapper, separate from this repository's builds, and a PATH for it.
struct Bmv2Wrapper(TempDir);

impl Bmv2Wrapper {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("mininet");
        fs::create_dir_all(copy.join("stand-in")).unwrap();
        for file in ["binary.py", "problem.py", "bmv2_wrapper.py", "stand-in/simple_switch_grpc"] {
            fs::copy(root().join("mininet").join(file), copy.join(file)).unwrap();
        }
        Self(folder)
    }

    /// Creates a wrapper whose `tributary` prints its arguments.
    fn that_prints() -> Self {
        let this = Self::new();
        let tributary = this.0.path().join("tributary");
        fs::write(&tributary, "#!/bin/sh\nexec echo \"$@\"\n").unwrap();
        fs::set_permissions(&tributary, fs::Permissions::from_mode(0o755)).unwrap();
        this
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(self.0.path().join("mininet/stand-in/simple_switch_grpc"));
        let path = format!("{}:/usr/bin:/bin", self.0.path().display());
        command.args(words.split_whitespace()).current_dir(self.0.path()).env("PATH", path);
        command
    }

    fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// Returns the arguments with which the wrapper calls `tributary`.
    fn call(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, file: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(file), contents).unwrap();
    }
}

/// Returns true if the BMv2 wrapper can run; otherwise prints that it cannot.
fn has_python() -> bool {
    let has = Command::new(PYTHON).arg("--version").output().is_ok();
    if !has {
        eprintln!("SKIPPED: there is no {PYTHON}");
    }
    has
}

#[test]
fn the_command_line_of_p4langs_tutorials_runs_the_embedded_switch() {
    if !has_python() {
        return;
    }
    let wrapper = Bmv2Wrapper::that_prints();
    wrapper.write("basic.json", "");
    // The command line that utils/p4runtime_switch.py builds.
    let words = "-i 1@s1-eth1 -i 2@s1-eth2 --pcap pcaps --nanolog ipc:///tmp/bm-0-log.ipc --device-id 3 basic.json \
                 --log-console --thrift-port 9090 -- --grpc-server-addr 0.0.0.0:50051 --cpu-port 255 \
                 --priority-queues 8";
    let call = |program: &str| {
        format!(
            "switch --name s1 --device-id 3 --p4runtime 0.0.0.0:50051 --port 1=s1-eth1 --port 2=s1-eth2{program} \
             --cpu-port 255 --pcap pcaps --log-packets"
        )
    };
    // Without a P4Info, a controller must load the program.
    assert_eq!(wrapper.call(words), call(""));
    assert!(stderr(&wrapper.run(words)).contains("--p4runtime-files basic.p4info.txtpb"));
    wrapper.write("basic.p4.p4info.txtpb", "");
    assert_eq!(wrapper.call(words), call(" --program basic.json --p4info basic.p4.p4info.txtpb"));
}

#[test]
fn what_bmv2_leaves_open_is_as_with_bmv2() {
    if !has_python() {
        return;
    }
    let wrapper = Bmv2Wrapper::that_prints();
    assert_eq!(
        wrapper.call("--no-p4 -i 0@veth0 --pcap"),
        "switch --name veth0 --device-id 0 --p4runtime 0.0.0.0:9559 --port 0=veth0 --pcap ."
    );
    wrapper.call("--no-p4 -i 0@veth0 --log-file said");
    let said = fs::read_to_string(wrapper.0.path().join("said.txt")).unwrap();
    assert!(said.ends_with("--port 0=veth0 --log-packets\n"), "{said}");
}

#[test]
fn what_the_embedded_switch_cannot_do_is_refused_by_name() {
    if !has_python() {
        return;
    }
    let wrapper = Bmv2Wrapper::that_prints();
    for (words, problem) in [
        ("--no-p4", "-i PORT@INTERFACE"),
        ("-i 1@veth0", "FILE.json"),
        ("-i veth0 --no-p4", "-i/--interface"),
        ("-i 1@veth0 --no-p4 -- --drop-port 510", "drops packets to port 511 only"),
        ("-i 1@veth0 --no-p4 -- --grpc-server-ssl", "--grpc-server-ssl is not supported"),
        ("-i 1@veth0 --no-p4 --restore-state file", "--restore-state is not supported"),
        ("-i 1@veth0 --no-p4 --nonsense", "--nonsense"),
    ] {
        let output = wrapper.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}: {}", stderr(&output));
        assert!(stderr(&output).contains(problem), "{words}: {}", stderr(&output));
    }
    let nowhere = wrapper.run("-i 1@veth0 --no-p4 -- --grpc-server-addr nowhere.invalid:1");
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(stderr(&nowhere).contains("--grpc-server-addr nowhere.invalid:1"), "{}", stderr(&nowhere));
}

/// A process that is killed when this value is dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn in_place_of_bmv2_the_embedded_switch_tells_what_packets_meet() {
    if !has_python() {
        return;
    }
    let wrapper = Bmv2Wrapper::new();
    symlink(env!("CARGO_BIN_EXE_tributary"), wrapper.0.path().join("tributary")).unwrap();
    for ending in ["json", "p4info.txtpb"] {
        let file = format!("logged.{ending}");
        fs::copy(root().join("crates/softswitch/tests/programs").join(&file), wrapper.0.path().join(&file))
            .unwrap();
    }
    // A capture with one frame of 20 bytes.
    let words = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 262_144, 1, 1, 0, 20, 20];
    let capture: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([0x12; 20]).collect();
    wrapper.write("s1-eth1_in.pcap", capture);
    let words = "--use-files 0 -i 1@s1-eth1 logged.json --log-console -- --grpc-server-addr localhost:0";
    let mut switch =
        Ends(wrapper.command(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(switch.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.next().unwrap().starts_with("packet 1: 20 bytes by port 1"));
    assert!(lines.any(|line| line == "  parser error: NoMatch"));
    assert!(lines.any(|line| line == "  dropped: by ingress"));
}
