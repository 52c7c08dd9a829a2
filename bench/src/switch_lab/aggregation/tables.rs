//! Installs, over P4Runtime, the program and the tables of one job with two children, as the controller would.

use std::time::Duration;

use tokio::runtime;
use tokio::time::Instant;
use tributary_lab::{CONTROLLER, Lab};
use tributary_p4runtime::entry::{ActionCall, Entity, TableEntry};
use tributary_p4runtime::p4::v1::Update;
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_wire::SliceWidth;
use tributary_wire::constants::{KIND_GRADIENT, RANK_ALL};

use super::SwitchLabError;
use crate::generator::{CHILDREN, Flow};

/// The program and its P4Info for slices of up to 256 values, and for wider ones.
const ETHERNET: [&str; 2] = [
    include_str!("../../../p4/build/256/tributary.json"),
    include_str!("../../../p4/build/256/tributary.p4info.txtpb"),
];
const WIDEST: [&str; 2] = [
    include_str!("../../../p4/build/2048/tributary.json"),
    include_str!("../../../p4/build/2048/tributary.p4info.txtpb"),
];
/// The index of the job's counters.
const JOB_INDEX: u16 = 0;
const COOKIE: u64 = 1;
const ELECTION_ID: u128 = 1;
/// How long a switch may take to start: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Installs the program and the job's entries as soon as the switch is up. They stay when this returns.
pub(super) fn install(
    lab: &Lab,
    target: Target,
    flow: &Flow,
    child_ports: [u16; CHILDREN],
) -> Result<(), SwitchLabError> {
    let [json, p4info] = if flow.width <= SliceWidth::ETHERNET { ETHERNET } else { WIDEST };
    let p4info = P4Info::parse(p4info).map_err(SwitchLabError::P4Info)?;
    let updates = updates(&p4info, flow, child_ports)?;
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

fn updates(
    p4info: &P4Info,
    flow: &Flow,
    child_ports: [u16; CHILDREN],
) -> Result<Vec<Update>, SwitchLabError> {
    let identity = ActionCall::new("set_identity").with("node", flow.switch.get());
    let identity = Entity::from(TableEntry::default_of("identity").action(identity)).modify(p4info)?;
    let guard = TableEntry::new("egress_guard")
        .exact("job", flow.job.get())
        .exact("egress_port", flow.parent_port)
        .action(ActionCall::new("allow"));
    let mut updates = vec![identity, Entity::from(guard).insert(p4info)?];
    for (child, port) in child_ports.into_iter().enumerate() {
        let admit = ActionCall::new("admit")
            .with("job_index", JOB_INDEX)
            .with("slot_base", 0_u32)
            .with("slot_mask", flow.window - 1)
            .with("children", 1_u64 << child)
            .with("kinds", KIND_GRADIENT)
            .with("aggregate", 1_u8)
            .with("fan_in", CHILDREN as u8)
            .with("rank", RANK_ALL);
        let entry = TableEntry::new("admission")
            .exact("job", flow.job.get())
            .exact("ingress_port", port)
            .action(admit);
        updates.push(Entity::from(entry).insert(p4info)?);
    }
    Ok(updates)
}
