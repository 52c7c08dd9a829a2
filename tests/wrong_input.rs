//! Tests that wrong input gets a clear error, and exit status 1 or 2.

use std::convert::Infallible;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Request;
use tributary_testkit::binary::{json, refused, tributary};
use tributary_testkit::root;

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

/// Writes a copy of the default topology with one text replaced.
fn changed_topology(folder: &Path, from: &str, to: &str) -> std::path::PathBuf {
    let text = fs::read_to_string(root().join("topologies/three-tier-8.toml")).unwrap();
    assert!(text.contains(from), "{from:?} is not in the topology any more");
    let file = folder.join("changed.toml");
    fs::write(&file, text.replacen(from, to, 1)).unwrap();
    file
}

/// Writes a copy of the checked-in pipeline, whose JSON `change` has modified, into a folder.
fn changed_pipeline(folder: &Path, change: impl FnOnce(&mut Value)) {
    let build = root().join("p4/build/256");
    let mut pipeline: Value =
        serde_json::from_slice(&fs::read(build.join("tributary.json")).unwrap()).unwrap();
    change(&mut pipeline);
    fs::write(folder.join("tributary.json"), pipeline.to_string()).unwrap();
    fs::copy(build.join("tributary.p4info.txtpb"), folder.join("tributary.p4info.txtpb")).unwrap();
}

fn named<'a>(list: &'a mut Value, name: &str) -> &'a mut Value {
    list.as_array_mut().unwrap().iter_mut().find(|item| item["name"] == name).unwrap()
}

#[test]
fn the_options_are_checked() {
    refused(&["demo", "--loss", "1.5"], 2, &["--loss", "probability"]);
    refused(&["demo", "--rounds", "0"], 2, &["--rounds"]);
    refused(&["demo", "--aggregation", "everywhere"], 2, &["tree", "leaf", "none"]);
    refused(&["demo", "--window", "100"], 2, &["--window", "power of two"]);
    refused(&["frobnicate"], 2, &["frobnicate"]);
}

#[test]
fn the_old_spellings_name_the_new_program() {
    refused(
        &["bench", "allreduce", "--rate", "50mbit"],
        2,
        &["`tributary bench`", "`tributary-bench allreduce --rate 50mbit`"],
    );
    refused(&["bench", "--help"], 2, &["`tributary-bench --help`"]);
    refused(&["bench"], 2, &["`tributary-bench`"]);
    let seeded = ["lab", "chaos", "topologies/two-workers.toml", "--seed", "1", "-x"];
    refused(&seeded, 2, &["`tributary-bench chaos topologies/two-workers.toml --seed 1 -x`"]);
    refused(&["lab", "chaos", "--version"], 2, &["`tributary-bench chaos --version`"]);
    for (command, old) in [(&["--help"][..], "bench"), (&["lab", "--help"], "chaos")] {
        let help = String::from_utf8(tributary(command).stdout).unwrap();
        assert!(help.contains("Commands:") && !help.contains(old), "{help}");
    }
}

#[test]
fn a_topology_is_refused_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let dangling = changed_topology(folder.path(), "\"w0\"]", "\"nowhere\"]");
    refused(&["demo", "--topology", path(&dangling)], 1, &["changed.toml:", "nowhere"]);
    refused(&["plan", "--topology", path(&dangling)], 1, &["changed.toml:", "nowhere"]);
    let duplicate = changed_topology(folder.path(), "name = \"w1\"", "name = \"w0\"");
    refused(&["demo", "--topology", path(&duplicate)], 1, &["changed.toml:", "w0"]);
    refused(&["demo", "--topology", "no/such/file.toml"], 1, &["no/such/file.toml"]);
}

/// [`refused`] also checks that the error gives the cause only once.
#[test]
fn a_file_that_cannot_be_used_is_named_with_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let dir = path(folder.path());
    let missing = "No such file or directory";
    for command in [&["demo", "--topology"][..], &["plan", "--topology"], &["topology"]] {
        refused(&[command, &["no/such/file.toml"]].concat(), 1, &["no/such/file.toml", missing]);
    }
    refused(&["demo", "--pipeline", dir], 1, &["tributary.json", missing]);
    refused(&["switch", "--config", "no/such/file.toml"], 1, &["no/such/file.toml", missing]);

    json(&["certs", "init", "--json", "--dir", dir]);
    json(&["certs", "issue", "--json", "--dir", dir, "--host", "w0"]);
    let [ca, cert, key] = ["ca.crt", "w0.crt", "w0.key"].map(|name| folder.path().join(name));
    let list = |cert: &str, problem: &str| {
        let files = ["--tls-ca", path(&ca), "--tls-cert", cert, "--tls-key", path(&key)];
        refused(&[&["jobs", "list"], &files[..]].concat(), 1, &[cert, problem]);
    };
    list("no/such/w0.crt", missing);
    list(path(&key), "holds no certificate in PEM format: ");
    fs::write(&cert, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    list(path(&cert), "cannot be used: ");
}

/// No process writes to the pipe, so a program that opened it would wait forever.
#[test]
fn an_input_that_is_a_pipe_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let pipe = |name: &str| {
        assert!(Command::new("mkfifo").arg(file(name)).status().unwrap().success());
        file(name)
    };
    let no_file = "it is a pipe, not a regular file";
    let pipe_toml = pipe("pipe.toml");
    let toml = path(&pipe_toml);
    for command in [
        &["demo", "--topology", toml][..],
        &["plan", "--topology", toml],
        &["topology", toml],
        &["controller", "--topology", toml],
        &["lab", "up", toml],
        &["switch", "--config", toml],
        &["certs", "issue", "--dir", path(folder.path()), "--topology", toml],
    ] {
        refused(command, 1, &["pipe.toml", no_file]);
    }
    pipe("tributary.json");
    refused(&["demo", "--pipeline", path(folder.path())], 1, &["tributary.json", no_file]);
    let credential = pipe("w0.crt");
    let list = ["jobs", "list", "--tls-ca", path(&credential), "--tls-cert", path(&credential)];
    refused(&[&list[..], &["--tls-key", path(&credential)]].concat(), 1, &["w0.crt", no_file]);
    pipe("ca.crt");
    refused(&["certs", "issue", "--dir", path(folder.path()), "--host", "w1"], 1, &["ca.crt", no_file]);
}

#[test]
fn an_unreachable_worker_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("topologies/three-tier-8.toml")).unwrap();
    let alone = format!(
        "{text}\n[[switch]]\nname = \"island\"\n\n[[host]]\nname = \"w8\"\nrole = \"worker\"\n\n[[link]]\nends = [\"island\", \"w8\"]\n"
    );
    let file = folder.path().join("island.toml");
    fs::write(&file, alone).unwrap();
    refused(&["demo", "--topology", path(&file)], 1, &["island.toml:", "w8"]);
}

#[test]
fn a_broken_addition_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    changed_pipeline(folder.path(), |pipeline| {
        let add = named(&mut pipeline["actions"], "SwitchIngress.gradients.values.add");
        replace_first(add, "+", "-");
    });
    refused(&["demo", "--pipeline", path(folder.path())], 1, &["error: w", "tag", "sum", "slice"]);
}

/// Replaces the first operator `from` in an expression tree.
fn replace_first(value: &mut Value, from: &str, to: &str) -> bool {
    match value {
        Value::Object(fields) => {
            if fields.get("op").is_some_and(|op| op == from) {
                fields.insert("op".to_owned(), to.into());
                return true;
            }
            fields.values_mut().any(|field| replace_first(field, from, to))
        }
        Value::Array(items) => items.iter_mut().any(|item| replace_first(item, from, to)),
        _ => false,
    }
}

#[test]
fn a_p4info_that_does_not_fit_the_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    changed_pipeline(folder.path(), |pipeline| {
        for block in pipeline["pipelines"].as_array_mut().unwrap() {
            for table in block["tables"].as_array_mut().unwrap() {
                if table["name"].as_str().unwrap().ends_with("egress_guard") {
                    table["name"] = "Ingress.somebody_elses".into();
                }
            }
        }
    });
    refused(&["demo", "--pipeline", path(folder.path())], 1, &["egress_guard"]);
    let empty = tempfile::tempdir().unwrap();
    refused(&["demo", "--pipeline", path(empty.path())], 1, &["tributary.json"]);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["demo", "--listen", &address], 1, &[&address, "in use"]);
    let folder = tempfile::tempdir().unwrap();
    let with_address = format!("name = \"leaf0\"\np4runtime = \"{address}\"");
    let topology = changed_topology(folder.path(), "name = \"leaf0\"", &with_address);
    refused(&["demo", "--topology", path(&topology)], 1, &[&address, "leaf0", "taken"]);
}

#[test]
fn a_job_that_needs_more_slots_than_there_are_is_refused() {
    refused(&["demo", "--window", "8192"], 1, &["slots", "8192", "4096"]);
}

#[test]
fn what_is_no_controller_is_said_to_be_none() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // A gRPC server with other services, such as a switch's, does not know the controller's calls.
    let other = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Status::unimplemented("").into_http::<Body>())
    });
    let connections = runtime.block_on(async move { tributary_transport::incoming(listener, None, 64) });
    runtime.spawn(tonic::transport::Server::builder().serve_with_incoming(other, connections));
    let commands =
        [(&["jobs", "list"][..], 1), (&["jobs", "explain", "job"], 1), (&["counters"], 1), (&["doctor"], 2)];
    for (command, status) in commands {
        let arguments = [command, &["--controller", &address]].concat();
        refused(&arguments, status, &[&address, "is no controller", "--controller", "Unimplemented"]);
    }
}
