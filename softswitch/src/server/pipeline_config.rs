//! The forwarding pipeline config: which program the switch runs.
//!
//! As with simple_switch_grpc, a commit empties the tables, and P4Runtime knows of no multicast groups after
//! it. BMv2's replication engine keeps the old groups all the same, and sends packets twice when a controller
//! inserts them again; ours are gone.

use std::sync::{Arc, Mutex, PoisonError};

use tonic::Status;
use tributary_p4runtime::p4::v1::ForwardingPipelineConfig;
use tributary_p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use tributary_p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;

use super::carry_over::Written;
use super::device::{Device, Program, Programs, Saved};
use super::status::Refusal;
use crate::pipeline::Pipeline;
use crate::switch::Switch;

/// Carries out a SetForwardingPipelineConfig of the primary.
pub(super) async fn set(
    device: &Device,
    action: Action,
    config: Option<ForwardingPipelineConfig>,
) -> Result<(), Status> {
    match (action, config) {
        (Action::Unspecified, _) => Err(Status::invalid_argument("the action is not set")),
        (Action::Commit, None) => commit_saved(device).await,
        (Action::Commit, Some(_)) => {
            Err(Status::invalid_argument("COMMIT is for the program that was saved, and takes no other one"))
        }
        (_, None) => Err(Status::invalid_argument("there is no config to act on")),
        (action, Some(config)) => {
            let program = Arc::new(load(config).await?);
            match action {
                Action::VerifyAndSave => save(device, program).await,
                Action::VerifyAndCommit => commit(device, program).await,
                Action::ReconcileAndCommit => reconcile(device, program).await,
                _ => Ok(()),
            }
        }
    }
}

/// The parts of the config that are asked for.
pub(super) fn get(program: &Program, part: ResponseType) -> ForwardingPipelineConfig {
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

/// Compiles and checks a program. That takes milliseconds, so it happens beside the async threads.
async fn load(config: ForwardingPipelineConfig) -> Result<Program, Status> {
    let loaded = tokio::task::spawn_blocking(move || {
        let p4info = config.p4info.clone().ok_or_else(|| Refusal::invalid("the config has no P4Info"))?;
        let json = str::from_utf8(&config.p4_device_config).map_err(|_| {
            Refusal::invalid("the device config is not text: it has to be the JSON of p4c-bm2-ss")
        })?;
        let pipeline = Arc::new(Pipeline::load(json, p4info)?);
        Ok::<_, Refusal>(Program { config, pipeline })
    });
    let loaded =
        loaded.await.map_err(|error| Status::internal(format!("the program can't be loaded: {error}")))?;
    Ok(loaded?)
}

/// Runs a program, in place of what ran before.
async fn commit(device: &Device, program: Arc<Program>) -> Result<(), Status> {
    let mut programs = device.programs.write().await;
    let switch = Switch::new(program.pipeline.clone());
    install(device, &mut programs, program, switch).await
}

/// Keeps a program for COMMIT; from now on requests refer to it, while packets still meet the running one.
async fn save(device: &Device, program: Arc<Program>) -> Result<(), Status> {
    let switch = Mutex::new(Switch::new(program.pipeline.clone()));
    device.programs.write().await.saved = Some(Saved { program, switch });
    Ok(())
}

/// Runs the program that was saved, with what was written to it since.
async fn commit_saved(device: &Device) -> Result<(), Status> {
    let mut programs = device.programs.write().await;
    let saved = programs.saved.take().ok_or_else(|| Status::not_found("no program was saved"))?;
    let switch = saved.switch.into_inner().unwrap_or_else(PoisonError::into_inner);
    install(device, &mut programs, saved.program, switch).await
}

/// Runs a program with the entries of the one before, if all of them fit.
async fn reconcile(device: &Device, program: Arc<Program>) -> Result<(), Status> {
    let mut programs = device.programs.write().await;
    let mut switch = Switch::new(program.pipeline.clone());
    if let Some(before) = programs.running.clone() {
        let fresh = Switch::new(before.pipeline.clone());
        let read = move |old: &mut Switch| Written::on(old, &fresh, before.p4info());
        let written = device.control.run(read).await.map_err(Refusal::from)?.map_err(Refusal::from)?;
        written.put_on(&mut switch).map_err(|error| {
            Status::invalid_argument(format!("the new program can't keep what the running one has: {error}"))
        })?;
    }
    install(device, &mut programs, program, switch).await
}

/// Puts a switch that is ready in the place of the running one: no packet sees anything between the two.
async fn install(
    device: &Device,
    programs: &mut Programs,
    program: Arc<Program>,
    switch: Switch,
) -> Result<(), Status> {
    device.control.install(switch).await.map_err(Refusal::from)?;
    *programs = Programs { running: Some(program), saved: None };
    Ok(())
}
