//! The program and the tables of one job with two children, as the controller would write them.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry::{ActionCall, Entity, TableEntry};
use tributary_p4runtime::p4::v1::Update;
use tributary_wire::SliceWidth;
use tributary_wire::constants::{KIND_GRADIENT, RANK_ALL};

use super::super::SwitchLabError;
use super::super::tables::Programming;
use crate::generator::{CHILDREN, Flow};

/// The program and its P4Info for slices of up to 256 values, and for wider ones.
const ETHERNET: [&str; 2] = [
    include_str!("../../../../../p4/build/256/tributary.json"),
    include_str!("../../../../../p4/build/256/tributary.p4info.txtpb"),
];
const WIDEST: [&str; 2] = [
    include_str!("../../../../../p4/build/2048/tributary.json"),
    include_str!("../../../../../p4/build/2048/tributary.p4info.txtpb"),
];
/// The index of the job's counters.
const JOB_INDEX: u16 = 0;

/// Returns the program for the flow's width, and the entries of its job.
pub(super) fn programming(flow: &Flow, child_ports: [u16; CHILDREN]) -> Result<Programming, SwitchLabError> {
    let [json, p4info] = if flow.width <= SliceWidth::ETHERNET { ETHERNET } else { WIDEST };
    let p4info = P4Info::parse(p4info).map_err(SwitchLabError::P4Info)?;
    let updates = updates(&p4info, flow, child_ports)?;
    Ok(Programming { json, p4info, updates })
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
