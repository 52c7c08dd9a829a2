//! `tributary-bench switch`: compares the embedded switch with BMv2 and a bare loop.
//!
//! All are under the same load.

mod common;
pub(crate) mod forwarding;

use anyhow::Result;
use clap::Args;
use tributary_bench::switch_lab::SwitchUnderTest;
use tributary_bench::switch_lab::aggregation::{AggregationSetting, measure};
use tributary_controller::built_in_slots;

use common::{Labels, RunArgs};
use tributary::WrongUse;

/// The switches that take part by default.
const SWITCHES: [SwitchUnderTest; 4] =
    [SwitchUnderTest::Joined, SwitchUnderTest::Softswitch, SwitchUnderTest::Loop, SwitchUnderTest::Bmv2];

/// Measures the slices a second that a switch aggregates. Two children and a parent are on three veth
/// interfaces; each slice takes two packets in and one packet out. The embedded switch and BMv2's simple_switch_grpc
/// take turns, with the same compiled program, tables and load; every sum is checked. A bare loop of recvmmsg, add
/// and sendmmsg, without a protocol, takes turns with them: it shows the limit of the machine with one frame at a
/// time. The embedded switch takes part twice: with one frame at a time, and with neighbouring frames joined, as in
/// labs
///
/// The exit status is 1 unless the embedded switch with joined frames is at least as fast as the loop, and at least
/// 10 times as fast as BMv2.
#[derive(Debug, Clone, Args)]
pub(crate) struct SwitchArgs {
    /// MTUs of the links, in bytes, which determine the slice width: 256 values with 1500, 2,048 with 9000
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1500,9000",
          value_parser = super::common::mtu)]
    mtu: Vec<u16>,

    #[command(flatten)]
    run: RunArgs,
}

/// Measures, and prints the results.
///
/// # Errors
/// No rights to make a lab; a switch that does not start or aggregates wrongly; a ratio below its limit.
pub(crate) fn run(args: &SwitchArgs) -> Result<()> {
    let slots = built_in_slots()?;
    if let Some(window) = args.run.window.iter().find(|window| **window > slots) {
        return Err(WrongUse(format!("--window {window}: a switch has {slots} slots")).into());
    }
    let options = args.run.options("switch", &SWITCHES)?;
    let labels = Labels { items: "slices", describe };
    labels.show(&args.run, (args.mtu.len() * options.windows.len(), &options), |stop, done| {
        measure(&options, &args.mtu, stop, done)
    })
}

fn describe(setting: &AggregationSetting) -> String {
    let AggregationSetting { mtu, values, window } = setting;
    format!("{values} values (MTU {mtu}), window {window}")
}
