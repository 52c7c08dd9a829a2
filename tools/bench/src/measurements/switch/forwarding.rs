//! `tributary-bench forwarding`: compares the embedded switch with BMv2 in forwarding packets.

use anyhow::Result;
use clap::{Args, ValueEnum};
use tributary_bench::switch_lab::SwitchUnderTest;
use tributary_bench::switch_lab::forwarding::{ForwardingSetting, Program, measure};

use super::common::{Labels, RunArgs};

/// The switches that take part by default: all switches that run programs.
const SWITCHES: [SwitchUnderTest; 3] =
    [SwitchUnderTest::Bypassing, SwitchUnderTest::Softswitch, SwitchUnderTest::Bmv2];

/// Measures the packets a second that a switch forwards between three veth interfaces, with programs
/// and entries that are typical of BMv2. The embedded switch and BMv2's simple_switch_grpc take turns, with the same
/// compiled program, entries and packets; every packet that the switch sends is compared with the expected packet
///
/// The exit status is 1 unless the embedded switch, with --bypass-queues, is at least 5 times as fast as BMv2.
#[derive(Debug, Clone, Args)]
pub(crate) struct ForwardingArgs {
    /// Programs to run, from tools/bench/programs
    #[arg(long, value_enum, value_delimiter = ',', default_value = "l2,router,acl")]
    program: Vec<ProgramChoice>,

    /// Length of a frame, without its check sequence
    #[arg(long, default_value_t = 128)]
    bytes: usize,

    #[command(flatten)]
    run: RunArgs,
}

/// A program to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProgramChoice {
    /// An L2 switch with 1,000 addresses
    L2,
    /// An IPv4 router with 1,000 prefixes
    Router,
    /// 1,000 ternary entries over addresses, protocol and ports
    Acl,
}

impl From<ProgramChoice> for Program {
    fn from(which: ProgramChoice) -> Self {
        match which {
            ProgramChoice::L2 => Self::L2,
            ProgramChoice::Router => Self::Router,
            ProgramChoice::Acl => Self::Acl,
        }
    }
}

/// Measures, and prints the results.
///
/// # Errors
/// No rights to make a lab; a switch that does not start or forwards wrongly; a ratio below its limit.
pub(crate) fn run(args: &ForwardingArgs) -> Result<()> {
    let programs: Vec<Program> = args.program.iter().copied().map(Into::into).collect();
    let options = args.run.options("forwarding", &SWITCHES)?;
    let labels = Labels { items: "packets", describe };
    labels.show(&args.run, (programs.len() * options.windows.len(), &options), |stop, done| {
        measure(&options, &programs, args.bytes, stop, done)
    })
}

fn describe(setting: &ForwardingSetting) -> String {
    let ForwardingSetting { program, bytes, window } = setting;
    format!("{program}, frames of {bytes} bytes, window {window}")
}
