//! The bare loop: receives, adds and sends, without protocol, tables or checks.
//! It shows the most that the machine can do.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use tributary_lab::Lab;
use tributary_topology::Node;
use tributary_wire::constants::INA_HEADER_BYTES;
use tributary_wire::frame::ENCAPSULATION_BYTES;

use super::super::{SwitchLabError, SwitchUnderTest};
use crate::compile::{CC, compile};
use crate::generator::{CHILDREN, Flow, VALUES_AT};

const SOURCE: &str = include_str!("../../../baselines/loop.c");
/// Compiler options for the fastest code on this machine.
const OPTIONS: [&str; 2] = ["-O3", "-march=native"];

/// Number of the header's 32-bit fields that are summed.
///
/// They are contributors, weight and both digits of the tag: the last fields of the header, after the slice's
/// number.
const TALLY_LANES: usize = 4;
const LANE_BYTES: usize = size_of::<u32>();
const TALLY_AT: usize = ENCAPSULATION_BYTES + INA_HEADER_BYTES - TALLY_LANES * LANE_BYTES;
const SEQ_AT: usize = TALLY_AT - LANE_BYTES;

/// Starts the loop at the station of `node`, and returns when it is ready to receive.
pub(super) fn start(
    lab: &Lab,
    node: &Node,
    flow: &Flow,
    child_ports: [u16; CHILDREN],
    errors: File,
) -> Result<Child, SwitchLabError> {
    let program = compile(CC, &OPTIONS, ("loop", SOURCE), &lab.folder())?;
    let interfaces = lab.interfaces(&node.name)?;
    let name = |port| {
        let interface = interfaces.iter().find(|interface| interface.port == port);
        interface.map(|interface| interface.name.as_str()).ok_or(SwitchLabError::Topology)
    };
    let numbers = [flow.window as usize, flow.frame_bytes(), SEQ_AT, TALLY_AT, TALLY_LANES, VALUES_AT];
    let mut command = lab.command(&node.name, program)?;
    command.args(numbers.map(|number| number.to_string())).arg(name(flow.parent_port)?);
    for port in child_ports {
        command.arg(name(port)?);
    }
    let switch = SwitchUnderTest::Loop.name();
    let failed = |reason| SwitchLabError::Process { switch, step: "start", reason };
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = child.map_err(failed)?;
    if let Some(output) = child.stdout.take() {
        // If the loop has failed, this line is the end of its output. Then no sums come out, and the loop's
        // log has the reason.
        BufReader::new(output).read_line(&mut String::new()).map_err(failed)?;
    }
    Ok(child)
}
