//! The bare loop: receives, adds and sends, with no protocol, tables or checks. What the machine can do at most.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tributary_lab::Lab;
use tributary_topology::Node;
use tributary_wire::constants::INA_HEADER_BYTES;
use tributary_wire::frame::ENCAPSULATION_BYTES;

use super::{SwitchLabError, SwitchUnderTest};
use crate::compile::compile;
use crate::generator::{CHILDREN, Flow, VALUES_AT};

const SOURCE: &str = include_str!("../../baselines/loop.c");
const COMPILER: &str = "cc";
/// As fast as the compiler can make it for this machine.
const OPTIONS: [&str; 2] = ["-O3", "-march=native"];

/// 32-bit numbers of the header that are added up: contributors, weight and both digits of the tag. The header ends with
/// them, behind the slice's number.
const TALLY_LANES: usize = 4;
const LANE_BYTES: usize = size_of::<u32>();
const TALLY_AT: usize = ENCAPSULATION_BYTES + INA_HEADER_BYTES - TALLY_LANES * LANE_BYTES;
const SEQ_AT: usize = TALLY_AT - LANE_BYTES;

/// Whether it can be compiled here.
pub(super) fn can_be_compiled() -> bool {
    Command::new(COMPILER).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Starts it at the station of `node` and returns when it receives.
pub(super) fn start(
    lab: &Lab,
    node: &Node,
    flow: &Flow,
    child_ports: [u16; CHILDREN],
    errors: Stdio,
) -> Result<Child, SwitchLabError> {
    let program = compile(COMPILER, &OPTIONS, ("loop", SOURCE), &lab.folder())?;
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
    let failed =
        |reason| SwitchLabError::Process { switch: SwitchUnderTest::Loop.name(), step: "start", reason };
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors).spawn();
    let mut child = child.map_err(failed)?;
    if let Some(output) = child.stdout.take() {
        // The end of it, where it has failed: nothing comes out of it then, and its log says why.
        BufReader::new(output).read_line(&mut String::new()).map_err(failed)?;
    }
    Ok(child)
}
