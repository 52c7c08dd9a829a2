//! Tests of daemons' settings from options and files, as far as they do not need root.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tributary_testkit::binary::{assert_refused, refused};
use tributary_testkit::root;

#[test]
fn what_is_missing_is_named() {
    refused(&["agent"], 2, &["--interface", "--config"]);
    refused(&["switch", "--name", "s"], 2, &["--p4runtime"]);
    refused(&["switch", "--name", "s", "--p4runtime", "127.0.0.1:0"], 2, &["--port"]);
    refused(&["controller"], 2, &["--topology"]);
    refused(&["server", "--host", "ps", "--job", "a"], 2, &["1 --job", "0 --token-file"]);
    refused(&["allreduce", "--job", "a"], 2, &["--token-file"]);
    refused(&["jobs", "create", "a"], 2, &["--token-out"]);
}

#[test]
fn a_file_is_read_flags_win_and_unknown_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    let path = file.to_str().unwrap();
    let text = "name = \"root\"\np4runtime = \"127.0.0.1:0\"\nport = [\"1=no-such-if\"]\nlog = \"warn\"\n";
    fs::write(&file, text).unwrap();
    refused(&["switch", "--config", path], 1, &["port 1", "no-such-if"]);
    refused(&["switch", "--config", path, "--port", "2=other-if"], 1, &["port 2", "other-if"]);
    fs::write(&file, format!("{text}interfaces = 3\n")).unwrap();
    refused(&["switch", "--config", path], 2, &["switch.toml", "unknown key `interfaces`"]);
    fs::write(&file, text.replace("log = \"warn\"", "log = 3")).unwrap();
    refused(&["switch", "--config", path], 2, &["switch.toml", "log"]);
    refused(&["switch", "--config", "no-such-file.toml"], 1, &["no-such-file.toml"]);
}

/// A daemon has several groups of options, and a file may contain options of all groups.
#[test]
fn an_unknown_key_is_told_all_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("daemon.toml");
    let of_all = [" log,", " log-format,", " cpus,"];
    let refused = |daemon: &str, own: &[&str]| {
        refused(&[daemon, "--config", file.to_str().unwrap()], 2, &[&of_all[..], own].concat());
    };
    fs::write(&file, "tls-crt = \"w0.crt\"\n").unwrap();
    refused("agent", &["unknown key `tls-crt`", " host,", " tls-cert,", " max-memory,", " socket,"]);
    refused("server", &[" host,", " tls-cert,", " ps-listen,"]);
    refused("controller", &[" topology,", " tls-client-ca,", " tls-operator"]);
    refused("switch", &[" device-id,", " port,"]);
    fs::write(&file, "config = \"other.toml\"\n").unwrap();
    refused("agent", &["unknown key `config`"]);
}

#[test]
fn a_number_that_is_out_of_range_is_told_the_range() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    let path = file.to_str().unwrap();
    let job = |number: &str| {
        let text = "policy = \"bsp\"\nepoch-iterations = 10\nlearning-rate = 0.2\nname = \"digits\"\n";
        fs::write(&file, format!("{text}{number}\n")).unwrap();
        ["server", "--ps-listen", "127.0.0.1:0", "--ps-job", path]
    };
    refused(&job("workers = 0"), 2, &["job.toml", "workers", "from 1 to 65535"]);
    refused(&job("workers = 2\nslack = -1"), 2, &["job.toml", "slack", "from 0 on"]);
    fs::write(&file, "mtu = 70000\n").unwrap();
    refused(&["switch", "--config", path], 2, &["job.toml", "mtu", "from 0 to 65535"]);
}

#[test]
fn an_environment_that_wins_over_the_file_is_named() {
    let run = |variables: &[(&str, &str)], options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.current_dir(root()).args(["agent", "--config", "deploy/config/agent.toml"]).args(options);
        String::from_utf8(command.envs(variables.iter().copied()).output().unwrap().stderr).unwrap()
    };
    let operator = [("TRIBUTARY_TLS_CERT", "operator.crt")];
    let said = run(&operator, &[]);
    assert!(
        said.contains("TRIBUTARY_TLS_CERT in the environment overrides tls-cert in deploy/config"),
        "{said}"
    );
    // A value on the command line, or an equal value in both places, causes no warning.
    for said in [
        run(&operator, &["--tls-cert", "w0.crt"]),
        run(&[("TRIBUTARY_TLS_CERT", "/etc/tributary/tls/w0.crt")], &[]),
        run(&[], &[]),
    ] {
        assert!(!said.contains("in the environment"), "{said}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    refused(&["switch", "--port", "eth0"], 2, &["--port", "NUMBER=INTERFACE"]);
    refused(&["controller", "--switch", "leaf0"], 2, &["--switch", "NAME=HOST:PORT"]);
    refused(&["agent", "--log-format", "xml"], 2, &["human", "json"]);
    refused(&["allreduce", "--job", "a", "--token-file", "t", "--iterations", "0"], 2, &["--iterations"]);
    refused(&["allreduce", "--job", "a", "--token-file", "t", "--size", "7"], 1, &["--size 7"]);
    let many = ["allreduce", "--job", "a", "--token-file", "t", "--size", "8", "--tensors", "3"];
    refused(&many, 1, &["--tensors 3", "2 elements"]);
    refused(&["jobs", "create", "a", "--token-out", "t", "--window", "100"], 2, &["power of two"]);
}

#[test]
fn nobody_there_is_said_with_the_address() {
    refused(&["jobs", "list", "--controller", "127.0.0.1:1"], 1, &["no controller at 127.0.0.1:1"]);
    refused(&["counters", "--controller", "127.0.0.1:1"], 1, &["no controller at 127.0.0.1:1"]);
}

#[test]
fn the_example_settings_have_no_key_that_there_is_not() {
    for (daemon, words) in [("controller", "topology.toml"), ("switch", "swp1"), ("agent", "ens1f0")] {
        let file = format!("deploy/config/{daemon}.toml");
        refused(&[daemon, "--config", &file], 1, &[words]);
    }
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(&token, "00").unwrap();
    let job = ["--job", "a", "--token-file", token.path().to_str().unwrap()];
    refused(&[&["server", "--config", "deploy/config/server.toml"], &job[..]].concat(), 1, &["ens1f0"]);
    refused(&["server", "--config", "deploy/config/parameter-server.toml"], 1, &["ps.crt"]);
}

#[test]
fn half_of_what_tls_needs_is_refused() {
    let cert = ["--tls-cert", "a.crt"];
    let key = ["--tls-key", "a.key"];
    let missing = |command: &[&str], words: &[&str]| refused(command, 2, words);
    missing(&[&["jobs", "list"], &cert[..]].concat(), &["missing: --tls-ca, --tls-key"]);
    missing(&[&["counters"], &cert[..], &key[..]].concat(), &["missing: --tls-ca"]);
    let controller = ["controller", "--topology", "topologies/two-workers.toml"];
    let addresses = ["--switch", "leaf=127.0.0.1:1"];
    missing(&[&controller[..], &addresses, &key].concat(), &["missing: --tls-cert, --tls-client-ca"]);
    missing(&[&controller[..], &addresses, &["--tls-operator", "me"]].concat(), &["--tls-operator needs"]);
    let member = ["--host", "w0", "--interface", "lo", "--controller", "127.0.0.1:1"];
    missing(&[&["agent"], &member[..], &key].concat(), &["missing: --tls-ca, --tls-cert"]);
    let files = ["--tls-ca", "none.crt", "--tls-cert", "none.crt", "--tls-key", "none.key"];
    refused(&[&["jobs", "list"], &files[..]].concat(), 1, &["cannot read none.crt"]);
    refused(&["jobs", "list", "--controller", "nowhere"], 1, &["nowhere", "HOST:PORT"]);
}

/// Returns a controller that keeps its jobs in a folder. A shell starts it after running `first`.
fn controller(folder: &Path, first: &str) -> Command {
    let topology = root().join("topologies/two-workers.toml");
    let options = "--listen 127.0.0.1:0 --switch leaf=127.0.0.1:1";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{first}; exec \"$0\" controller {options} \"$@\"")]);
    command.arg(env!("CARGO_BIN_EXE_tributary")).arg("--topology").arg(topology).arg("--state").arg(folder);
    command
}

#[test]
fn a_file_that_may_not_grow_is_an_error_and_no_sudden_death() {
    let folder = tempfile::tempdir().unwrap();
    let ended = controller(folder.path(), "ulimit -f 1").output().unwrap();
    assert_refused(&ended, &["jobs.redb", "cannot write", "File too large"]);
}

#[test]
fn a_log_that_cannot_be_written_ends_no_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notify");
    let systemd = UnixDatagram::bind(&file).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut command = controller(folder.path(), "exec 2>/dev/full");
    let mut daemon = command.env("NOTIFY_SOCKET", file).spawn().unwrap();
    let mut told = [0; 256];
    let told = systemd.recv(&mut told).map(|length| String::from_utf8_lossy(&told[..length]).into_owned());
    let stopped = Command::new("kill").arg(daemon.id().to_string()).status().unwrap();
    let ended = daemon.wait().unwrap();
    assert!(told.as_ref().is_ok_and(|told| told.contains("READY=1")), "{told:?}, {ended}");
    assert!(stopped.success() && ended.success(), "{ended}");
}
