//! Tests of `tributary certs`: a CA and its certificates as files. tests/daemons.rs and tests/tls.rs
//! test their use.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tributary_testkit::binary::{json, refused};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_ca_issues_certificates_for_a_whole_fabric_and_later_for_one_host_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certs");
    let dir = ["--json", "--dir", path.to_str().unwrap()];
    json(&[&["certs", "init"], &dir[..]].concat());
    let fabric = ["--controller", "10.0.0.1", "--controller", "controller.example", "--operator"];
    let server = ["--parameter-server", "ps=10.0.0.2", "--parameter-server", "ps=ps.example"];
    let topology = ["--topology", "topologies/two-workers.toml", "--days", "30"];
    let issued = json(&[&["certs", "issue"], &dir[..], &fabric, &server, &topology].concat());
    let issued = issued["certificates"].as_array().unwrap();
    let purposes: Vec<_> = issued.iter().map(|one| (one["names"].clone(), one["purpose"].clone())).collect();
    let row = |names: &[&str], purpose: &str| (names.to_vec().into(), purpose.into());
    let expected = [
        row(&["10.0.0.1", "controller.example"], "server"),
        row(&["operator"], "client"),
        row(&["ps", "10.0.0.2", "ps.example"], "server and client"),
        row(&["w0"], "client"),
        row(&["w1"], "client"),
    ];
    assert_eq!(purposes, expected);
    json(&[&["certs", "issue", "--host", "w2"], &dir[..]].concat());
    assert_eq!(names(&path).len(), 2 * 7, "{:?}", names(&path));
    for name in names(&path) {
        let mode = fs::metadata(path.join(&name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if name.ends_with(".key") { 0o600 } else { 0o644 }, "{name}");
    }
}

#[test]
fn what_is_no_file_is_not_replaced_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let file = |name: &str| folder.path().join(name);
    json(&["certs", "init", "--json", "--dir", dir]);
    assert!(Command::new("mkfifo").arg(file("w0.key")).status().unwrap().success());
    let issue = ["certs", "issue", "--dir", dir, "--replace", "--host"];
    refused(&[&issue[..], &["w0"]].concat(), 1, &["w0.key", "nothing reads"]);
    assert!(fs::metadata(file("w0.key")).unwrap().file_type().is_fifo());

    fs::write(file("elsewhere"), "an old key").unwrap();
    symlink("elsewhere", file("w1.key")).unwrap();
    json(&[&issue[..], &["w1", "--json"]].concat());
    assert!(file("w1.key").is_symlink());
    assert!(fs::read_to_string(file("elsewhere")).unwrap().contains("PRIVATE KEY"));
}

#[test]
fn nothing_is_overwritten_unless_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    refused(&["certs", "issue", "--dir", dir, "--host", "w0"], 1, &["ca.crt", "tributary certs init"]);
    json(&["certs", "init", "--json", "--dir", dir]);
    json(&["certs", "issue", "--json", "--dir", dir, "--host", "w0"]);
    let before =
        ["ca.crt", "ca.key", "w0.crt", "w0.key"].map(|name| fs::read(folder.path().join(name)).unwrap());
    refused(&["certs", "init", "--dir", dir], 1, &["ca.crt exists already"]);
    refused(&["certs", "issue", "--dir", dir, "--host", "w1", "--host", "w0"], 1, &["w0.crt", "--replace"]);
    assert_eq!(names(folder.path()), ["ca.crt", "ca.key", "w0.crt", "w0.key"]);
    let after = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(before, ["ca.crt", "ca.key", "w0.crt", "w0.key"].map(after));
    json(&["certs", "issue", "--json", "--dir", dir, "--host", "w0", "--replace"]);
    assert!(before[2] != after("w0.crt") && before[3] != after("w0.key") && before[0] == after("ca.crt"));
}

#[test]
fn wrong_use_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    refused(
        &["certs", "issue", "--dir", dir],
        2,
        &["--controller", "--parameter-server", "--host", "--topology", "--operator"],
    );
    refused(&["certs", "issue", "--dir", dir, "--days", "3", "--replace"], 2, &["--host <NAME>"]);
    refused(&["certs", "issue", "--dir", dir, "--host", "a b"], 2, &["a b", "DNS name"]);
    refused(&["certs", "issue", "--dir", dir, "--host", "10.0.0.1"], 2, &["not an address"]);
    refused(&["certs", "issue", "--dir", dir, "--parameter-server", "ps"], 2, &["ps=10.0.0.1"]);
    refused(
        &["certs", "issue", "--dir", dir, "--host", "ca"],
        2,
        &["ca.crt is the name of another certificate"],
    );
    refused(&["certs", "issue", "--dir", dir, "--topology", "none.toml"], 1, &["none.toml"]);
    refused(&["certs", "init", "--dir", dir, "--days", "0"], 2, &["--days"]);
    json(&["certs", "init", "--json", "--dir", dir]);
    fs::write(folder.path().join("ca.key"), "nonsense").unwrap();
    refused(
        &["certs", "issue", "--dir", dir, "--host", "w0"],
        1,
        &["cannot use the CA", "not a private key"],
    );
}

#[test]
fn a_controller_does_not_start_with_a_certificate_that_nobody_would_believe() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| {
        let path = folder.path().join(name).to_str().unwrap().to_owned();
        json(&["certs", "init", "--json", "--dir", &path]);
        let whom = ["--controller", "127.0.0.1", "--host", "w0"];
        json(&[&["certs", "issue", "--json", "--dir", &path], &whom[..]].concat());
        path
    });
    let start = |dir: &str, name: &str, words: &[&str]| {
        let [certificate, key] = ["crt", "key"].map(|ending| format!("{dir}/{name}.{ending}"));
        let ca = format!("{own}/ca.crt");
        let tls = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca];
        let daemon = ["controller", "--topology", "topologies/two-workers.toml"];
        refused(&[&daemon[..], &tls].concat(), 1, words);
    };
    start(&own, "w0", &["own/w0.crt is not for servers"]);
    start(&other, "controller", &["other/controller.crt is not signed by a CA in", "own/ca.crt"]);
}
