//! The forwarding pipeline config, which determines the program that the switch runs.
//!
//! As with simple_switch_grpc, a commit empties the tables, and afterwards P4Runtime reports no
//! multicast groups. BMv2's replication engine still keeps the old groups, and sends packets twice
//! when a controller inserts them again. This switch really removes them.

use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Status;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;

use super::carry_over::Written;
use super::device::{Device, DeviceProgram, Primacy, Programs, SavedProgram, carry_through};
use super::status::Refusal;
use crate::engine::Control;
use crate::packet_log::PacketLog;
use crate::switch::Switch;

/// Carries out a SetForwardingPipelineConfig of the primary.
/// Once a change has begun, it is completed even if the caller disconnects, so that the running and
/// the reported program do not diverge.
pub(super) async fn set(
    device: &Device,
    primacy: Primacy,
    action: Action,
    config: Option<ForwardingPipelineConfig>,
) -> Result<(), Status> {
    let change = match (action, config) {
        (Action::Unspecified, _) => return Err(Status::invalid_argument("the action is not set")),
        (Action::Commit, None) => Change::CommitSaved,
        (Action::Commit, Some(_)) => {
            let problem = "COMMIT is for the program that was saved, and takes no other one";
            return Err(Status::invalid_argument(problem));
        }
        (_, None) => return Err(Status::invalid_argument("there is no config to act on")),
        (action, Some(config)) => {
            let program = Arc::new(load(config, device.control.log()).await?);
            match action {
                Action::VerifyAndSave => Change::Save(program),
                Action::VerifyAndCommit => Change::Commit(program),
                Action::ReconcileAndCommit => Change::Reconcile(program),
                _ => return Ok(()),
            }
        }
    };
    let mut programs = Arc::clone(&device.programs).write_owned().await;
    let control = device.control.clone();
    carry_through(async move {
        let _primacy = primacy;
        change.carry_out(&control, &mut programs).await
    })
    .await
}

/// Returns the requested parts of the config.
pub(super) fn get(program: &DeviceProgram, part: ResponseType) -> ForwardingPipelineConfig {
    let config = &program.config;
    let wants = |one| part == ResponseType::All || part == one;
    ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| wants(ResponseType::P4infoAndCookie)),
        p4_device_config: if wants(ResponseType::DeviceConfigAndCookie) {
            config.p4_device_config.clone()
        } else {
            Vec::new()
        },
        cookie: config.cookie,
    }
}

/// Compiles and checks a program on a thread that may block.
async fn load(config: ForwardingPipelineConfig, log: Option<PacketLog>) -> Result<DeviceProgram, Status> {
    let loaded = tokio::task::spawn_blocking(move || DeviceProgram::load(config, log)).await;
    let loaded = loaded.map_err(|error| Status::internal(format!("the program can't be loaded: {error}")))?;
    Ok(loaded?)
}

/// A change of the programs, checked as far as possible before it is made.
enum Change {
    /// Runs a program in place of the running one.
    Commit(Arc<DeviceProgram>),
    /// Keeps a program for COMMIT.
    ///
    /// From then on, requests refer to this program, while packets still go through the running
    /// one.
    Save(Arc<DeviceProgram>),
    /// Runs the saved program, with everything written to it since.
    CommitSaved,
    /// Runs a program with the entries of its predecessor, if all of them fit.
    Reconcile(Arc<DeviceProgram>),
}

impl Change {
    /// Makes the change.
    async fn carry_out(self, control: &Control, programs: &mut Programs) -> Result<(), Status> {
        let (program, switch) = match self {
            Self::Save(program) => {
                let switch = Mutex::new(Switch::new(program.pipeline.clone()));
                programs.saved = Some(SavedProgram { program, switch });
                return Ok(());
            }
            Self::Commit(program) => {
                let switch = Switch::new(program.pipeline.clone());
                (program, switch)
            }
            Self::CommitSaved => {
                let saved = programs.saved.take().ok_or_else(|| Status::not_found("no program was saved"))?;
                (saved.program, saved.switch.into_inner())
            }
            Self::Reconcile(program) => {
                let switch = reconciled(control, programs.running.clone(), &program).await?;
                (program, switch)
            }
        };
        // The switch changes between two packets, so no packet sees a part of the change.
        control.install(switch).await.map_err(Refusal::from)?;
        *programs = Programs { running: Some(program), saved: None };
        Ok(())
    }
}

/// Returns a switch for this program with the entries of the running program.
async fn reconciled(
    control: &Control,
    running: Option<Arc<DeviceProgram>>,
    program: &DeviceProgram,
) -> Result<Switch, Status> {
    let mut switch = Switch::new(program.pipeline.clone());
    if let Some(before) = running {
        let fresh = Switch::new(before.pipeline.clone());
        let read = move |old: &mut Switch| Written::on(old, &fresh, before.p4info());
        let written = control.run(read).await.map_err(Refusal::from)?.map_err(Refusal::from)?;
        written.put_on(&mut switch).map_err(|error| {
            Status::invalid_argument(format!("the new program can't keep what the running one has: {error}"))
        })?;
    }
    Ok(switch)
}
