//! `tributary certs issue`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgGroup, Args};
use serde_json::json;
use tributary_certs::{Name, Subject, Validity};
use tributary_topology::Topology;

use super::folder::{CA, Folder};
use crate::daemons::service::WrongUse;
use crate::options::tls::DEFAULT_OPERATOR;
use tributary_cli::output;

/// Base name of the controller's files, independent of its host's name.
const CONTROLLER: &str = "controller";

#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("whom").required(true).multiple(true)
        .args(["controller", "parameter_server", "host", "topology", "operator"]),
    override_usage = "tributary certs issue [OPTIONS] --controller <NAME-OR-IP>
       tributary certs issue [OPTIONS] --parameter-server <HOST=NAME-OR-IP>
       tributary certs issue [OPTIONS] --host <NAME>
       tributary certs issue [OPTIONS] --topology <FILE>
       tributary certs issue [OPTIONS] --operator [<NAME>]"
)]
pub(super) struct IssueArgs {
    /// Make a certificate for the controller, which agents reach at this name or IP address; may be
    /// repeated, for one certificate with all names and addresses
    #[arg(long, value_name = "NAME-OR-IP")]
    controller: Vec<Name>,

    /// Make a certificate for this host, whose parameter server has this name or IP address; may be
    /// repeated, for one certificate with all names of a host
    #[arg(long, value_name = "HOST=NAME-OR-IP", value_parser = reached_host)]
    parameter_server: Vec<(String, Name)>,

    /// Make a certificate for the host with this name in the topology; may be repeated
    #[arg(long, value_name = "NAME", value_parser = dns_name)]
    host: Vec<String>,

    /// Make a certificate for each host in this topology file
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Make a certificate for the operator, who creates and ends jobs; the controller needs any
    /// name other than `operator` in its --tls-operator
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = DEFAULT_OPERATOR, value_parser = dns_name)]
    operator: Option<String>,

    /// Time for which the certificates are valid
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,

    /// Replace existing certificates and keys
    #[arg(long)]
    replace: bool,
}

/// Parses the name of a host or an operator, and checks that a certificate can contain it.
fn dns_name(text: &str) -> Result<String, String> {
    match text.parse() {
        Ok(Name::Dns(name)) => Ok(name),
        Ok(Name::Ip(_)) => Err("a host's name in the topology is needed, not an address".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a host's name, and the name or address through which clients reach the host.
fn reached_host(text: &str) -> Result<(String, Name), String> {
    let (host, name) =
        text.split_once('=').ok_or("a host and its name or address are needed, such as ps=10.0.0.1")?;
    Ok((dns_name(host)?, name.parse().map_err(|error| format!("{error}"))?))
}

pub(super) fn run(folder: &Folder, args: &IssueArgs, json: bool) -> Result<()> {
    let wanted = wanted(args)?;
    let authority = folder.authority()?;
    let validity = Validity::days(args.days)?;
    if !args.replace {
        // All names are checked first, so that the command writes either all certificates or none.
        wanted.iter().try_for_each(|(file, _)| folder.ensure_absent(file))?;
    }
    let mut table = output::table(&["purpose", "names", "good until", "certificate", "key"]);
    let mut rows = Vec::new();
    for (file, subject) in wanted {
        let issued = authority.issue(&subject, validity)?;
        let (certificate, key) = folder.keep(&file, &issued)?;
        let names: Vec<_> = subject.names().iter().map(ToString::to_string).collect();
        let purpose = match subject {
            Subject::Controller(_) => "server",
            Subject::ParameterServer(_) => "server and client",
            Subject::Client(_) => "client",
        };
        table.add_row([
            purpose.to_owned(),
            names.join(", "),
            issued.validity.to_string(),
            certificate.display().to_string(),
            key.display().to_string(),
        ]);
        rows.push(json!({
            "names": names,
            "purpose": purpose,
            "valid_until": issued.validity.to_string(),
            "certificate": certificate,
            "key": key,
        }));
    }
    let ca = folder.paths(CA).0;
    if json {
        output::print(json!({ "ca": ca, "certificates": rows }))?;
    } else {
        output::print(format_args!(
            "{table}\ncopy each certificate to its machine together with {}; keep the keys secret",
            ca.display()
        ))?;
    }
    Ok(())
}

/// Returns the file names and their subjects, each once.
///
/// # Errors
/// Two certificates have the same file name, or the topology cannot be read.
fn wanted(args: &IssueArgs) -> Result<Vec<(String, Subject)>> {
    let mut hosts = args.host.clone();
    if let Some(file) = &args.topology {
        let topology = Topology::load(file)?;
        hosts.extend(topology.hosts().map(|(_, node, _)| node.name.clone()));
    }
    let mut wanted = Vec::new();
    if !args.controller.is_empty() {
        wanted.push((CONTROLLER.to_owned(), Subject::Controller(args.controller.clone())));
    }
    let mut servers: BTreeMap<String, Vec<Name>> = BTreeMap::new();
    for (host, name) in &args.parameter_server {
        servers.entry(host.clone()).or_default().push(name.clone());
    }
    let mut all: Vec<_> = args.operator.iter().cloned().chain(hosts).chain(servers.keys().cloned()).collect();
    let mut seen = HashSet::new();
    all.retain(|name| seen.insert(name.clone()));
    for name in all {
        if name == CA || name == CONTROLLER {
            let problem = format!(
                "cannot issue a certificate to {name:?}: {name}.crt is the name of another certificate"
            );
            return Err(WrongUse(problem).into());
        }
        let subject = match servers.remove(&name) {
            Some(reached_at) => Subject::ParameterServer([vec![name.parse()?], reached_at].concat()),
            None => Subject::Client(name.parse()?),
        };
        wanted.push((name, subject));
    }
    Ok(wanted)
}
