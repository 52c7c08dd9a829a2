//! The certificate files that a process accepts at the start and at a reload.

use std::fs;
use std::path::Path;

use tributary_certs::Subject;
use tributary_transport::{ClientTls, ServerTls, TlsError, TlsFiles};

use crate::ca::{Ca, controller_at, days, host, later, long_ago};

fn both_ways(name: &str) -> Subject {
    Subject::ParameterServer(vec![name.parse().unwrap()])
}

fn unfit(error: &TlsError, words: &[&str]) {
    assert!(matches!(error, TlsError::Unfit { .. }), "{error}");
    let error = error.to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{words:?} are not all in: {error}");
}

/// Checks that neither side accepts these files.
fn unfit_for_both(files: &TlsFiles, words: &[&str]) {
    unfit(&ServerTls::load(files.clone()).unwrap_err(), words);
    unfit(&ClientTls::load(files.clone()).unwrap_err(), words);
}

#[test]
fn a_certificate_that_nobody_would_believe_is_not_taken() {
    let (ca, other) = (Ca::new(), Ca::new());
    let ended = (long_ago().until.date().to_string(), later().from.date().to_string());
    unfit_for_both(&ca.files("old", &both_ways("w0"), long_ago()), &["old.crt expired on", &ended.0, "UTC"]);
    unfit_for_both(
        &ca.files("early", &both_ways("w0"), later()),
        &["early.crt is not valid before", &ended.1, "clock"],
    );
    let foreign = TlsFiles { ca: ca.path("ca.crt"), ..other.files("foreign", &both_ways("w0"), days(5)) };
    let own_ca = ca.path("ca.crt");
    unfit_for_both(&foreign, &["foreign.crt is not signed by a CA in", own_ca.to_str().unwrap()]);
    let of_host = ca.files("w0", &host("w0"), days(5));
    unfit(&ServerTls::load(of_host.clone()).unwrap_err(), &["w0.crt is not for servers"]);
    ClientTls::load(of_host).unwrap();
    let of_controller = ca.files("controller", &controller_at("127.0.0.1"), days(5));
    unfit(&ClientTls::load(of_controller.clone()).unwrap_err(), &["controller.crt is not for clients"]);
    ServerTls::load(of_controller).unwrap();
}

#[test]
fn a_hosts_certificate_is_its_own() {
    let ca = Ca::new();
    let files = ca.files("w1", &host("w1"), days(5));
    let error = ClientTls::load_of_host(files.clone(), "w0").unwrap_err();
    unfit(&error, &["w1.crt is for \"w1\", not for host \"w0\"", "--host"]);
    ClientTls::load_of_host(files, "w1").unwrap();
}

#[test]
fn what_nobody_would_believe_does_not_replace_what_holds() {
    let ca = Ca::new();
    let server = ServerTls::load(ca.files("controller", &controller_at("127.0.0.1"), days(5))).unwrap();
    ca.files("controller", &controller_at("127.0.0.1"), long_ago());
    unfit(&server.reload().unwrap_err(), &["controller.crt expired on"]);
    let of_host = ca.files("w0", &host("w0"), days(3));
    let client = ClientTls::load_of_host(of_host.clone(), "w0").unwrap();
    let before = client.expires();
    ca.files("w0", &host("w0"), long_ago());
    unfit(&client.reload().unwrap_err(), &["w0.crt expired on"]);
    ca.files("w0", &host("w1"), days(5));
    unfit(&client.reload().unwrap_err(), &["w0.crt is for \"w1\", not for host \"w0\""]);
    assert_eq!(client.expires(), before);
    ca.files("w0", &host("w0"), days(5));
    client.reload().unwrap();
    assert!(client.expires() > before);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let ca = Ca::new();
    let good = ca.files("w0", &both_ways("w0"), days(5));
    let other = ca.files("w1", &both_ways("w1"), days(5));
    let refused = |files: TlsFiles, words: &[&str]| {
        let client = ClientTls::load(files.clone()).unwrap_err();
        let server = ServerTls::load(files).unwrap_err();
        for error in [&client as &dyn std::error::Error, &server].map(ToString::to_string) {
            assert!(words.iter().all(|word| error.contains(word)), "{words:?} are not in: {error}");
        }
        client
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let none = ca.path("none.crt");
    for field in 0..3 {
        let mut files = good.clone();
        *[&mut files.certificate, &mut files.key, &mut files.ca][field] = none.clone();
        assert!(matches!(refused(files, &["cannot read", &text(&none)]), TlsError::Unreadable { .. }));
    }
    let swapped = TlsFiles { certificate: good.key.clone(), key: good.certificate.clone(), ..good.clone() };
    refused(swapped, &[&text(&good.key), "holds no certificate"]);
    let no_key = TlsFiles { key: good.certificate.clone(), ..good.clone() };
    refused(no_key, &[&text(&good.certificate), "holds no private key"]);
    let mixed = TlsFiles { key: other.key.clone(), ..good.clone() };
    refused(mixed, &["w1.key", "does not belong to", "w0.crt"]);
    let damaged = ca.path("damaged.crt");
    fs::write(&damaged, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    refused(TlsFiles { ca: damaged.clone(), ..good.clone() }, &["damaged.crt", "cannot be used"]);
    refused(TlsFiles { certificate: damaged, ..good }, &["damaged.crt", "cannot be used"]);
}
