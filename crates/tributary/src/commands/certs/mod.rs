//! `tributary certs`: a test CA, and certificates signed by it.

mod folder;
mod issue;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use tributary_certs::{Authority, Validity};
use tributary_cli::output;

use folder::Folder;

/// Makes certificates with a test CA
///
/// The certificates are for the controller, hosts and operators.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    /// Folder of the CA and of all certificates that it has issued
    #[arg(long, global = true, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, Subcommand)]
enum CertsCommand {
    /// Make the CA, once for each fabric
    Init(InitArgs),
    /// Make certificates, each with its private key; more can be made later
    Issue(issue::IssueArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Time for which the CA is valid; its certificates are not valid for longer
    #[arg(long, value_name = "DAYS", default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
}

/// Runs the subcommand.
///
/// # Errors
/// Files exist already or cannot be written, or a folder has no CA.
pub(crate) fn run(args: &CertsArgs) -> Result<()> {
    let folder = Folder::new(&args.dir);
    match &args.command {
        CertsCommand::Init(init) => run_init(&folder, init, args.json),
        CertsCommand::Issue(issue) => issue::run(&folder, issue, args.json),
    }
}

fn run_init(folder: &Folder, args: &InitArgs, json: bool) -> Result<()> {
    let validity = Validity::days(args.days)?;
    let (certificate, key) = folder.create(&Authority::generate(validity)?)?;
    if json {
        let valid_until = validity.to_string();
        output::print(json!({ "certificate": certificate, "key": key, "valid_until": valid_until }))?;
        return Ok(());
    }
    output::print(format_args!("a CA, valid until {validity}"))?;
    output::print(format_args!("{}  its certificate: copy it to every machine", certificate.display()))?;
    output::print(format_args!("{}  its key: keep it here, and secret", key.display()))?;
    output::print("next: tributary certs issue --controller NAME-OR-IP --topology FILE --operator")
}
