//! Installs a program and its entries over P4Runtime, as a controller would.

use std::time::Duration;

use tokio::runtime;
use tokio::time::Instant;
use tributary_lab::{CONTROLLER, Lab};
use tributary_p4runtime::p4::v1::Update;
use tributary_p4runtime::{P4Info, Session, Target};

use super::SwitchLabError;

const COOKIE: u64 = 1;
const ELECTION_ID: u128 = 1;
/// Time limit for the start of a switch. It is long because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program and the table entries that the controller installs before the load starts.
pub(super) struct Programming {
    /// The program: p4c's JSON.
    pub(super) json: &'static str,
    pub(super) p4info: P4Info,
    /// The entries of the program.
    pub(super) updates: Vec<Update>,
}

/// Installs a program and its entries as soon as the switch is ready.
///
/// Both stay installed when this returns.
pub(super) fn install(lab: &Lab, target: Target, programming: Programming) -> Result<(), SwitchLabError> {
    let Programming { json, p4info, updates } = programming;
    lab.inside(CONTROLLER, || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|reason| SwitchLabError::Process {
            switch: "the controller",
            step: "start a runtime for",
            reason,
        })?;
        runtime.block_on(async {
            let session = Session::connect(target, ELECTION_ID, Instant::now() + PATIENCE).await?;
            session.primary().await?;
            session.set_pipeline(json.as_bytes(), &p4info, COOKIE).await?;
            Ok(session.write(updates).await?)
        })
    })?
}
