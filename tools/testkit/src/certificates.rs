//! Certificates from `tributary certs` for all members of a network.
use std::process::Command;

use crate::binary::json;
use crate::network::Network;

/// A CA's certificates, in a separate folder.
pub struct Certificates {
    folder: String,
}

impl Certificates {
    /// Issues certificates from a new CA for the controller at its address, an operator, and all hosts.
    /// The host `ps` may serve parameters.
    pub fn issue(network: &Network, folder: &str) -> Self {
        let dir = network.file(folder);
        json(&["certs", "init", "--json", "--dir", &dir]);
        let [_, address] = network.controller();
        let (controller, _) = address.split_once(':').unwrap();
        let topology = format!("topologies/{}.toml", network.topology.name());
        let server = format!("ps={}", network.address("ps"));
        let whom = ["--controller", controller, "--operator", "--topology", &topology];
        let whom = [&whom[..], &["--parameter-server", &server]].concat();
        json(&[&["certs", "issue", "--json", "--dir", &dir], &whom[..]].concat());
        Self { folder: dir }
    }

    /// Replaces the certificates of the controller, the operator and the hosts by certificates for `days`
    /// days.
    pub fn renew(&self, network: &Network, days: u32) {
        let [_, address] = network.controller();
        let (controller, _) = address.split_once(':').unwrap();
        let topology = format!("topologies/{}.toml", network.topology.name());
        let how =
            ["certs", "issue", "--json", "--replace", "--dir", &self.folder, "--days", &days.to_string()];
        let whom = ["--controller", controller, "--operator", "--topology", &topology];
        json(&[&how[..], &whom[..]].concat());
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Returns options for connecting to the controller with the certificate of `name`.
    pub fn of(&self, name: &str) -> [String; 6] {
        let (cert, key) = (self.file(&format!("{name}.crt")), self.file(&format!("{name}.key")));
        ["--tls-ca".into(), self.file("ca.crt"), "--tls-cert".into(), cert, "--tls-key".into(), key]
    }

    /// Returns the controller's options.
    pub fn controller(&self) -> [String; 6] {
        let [_, ca, cert, cert_file, key, key_file] = self.of("controller");
        [cert, cert_file, key, key_file, "--tls-client-ca".into(), ca]
    }
}

/// Adds options to a command.
pub fn with(mut command: Command, options: &[String]) -> Command {
    command.args(options);
    command
}
