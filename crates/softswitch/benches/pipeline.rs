//! The pipeline alone, on one core: a switch with two children processes GRADIENT packets of 256
//! values.
//!
//! The switch runs the project's program. It stores every other packet; the packet after it
//! completes a sum and leaves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot go on has failed"
)]

/// The program that is measured.
mod program {
    use tributary_wire::SliceWidth;

    /// The folder of the program under `p4/build`, and the width of its slices.
    pub(crate) const PROGRAM: (&str, SliceWidth) = ("256", SliceWidth::ETHERNET);
}
// The helpers are compiled for one width of slices, that of `program::PROGRAM`. A separate crate of
// helpers would need all widths, so it could not use the suite's arrays.
#[path = "../tests/suite/support.rs"]
mod support;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use rustix::time::{ClockId, clock_gettime};
use support::{BASE, Rig, Sent, WINDOW, values};
use tributary_wire::{Seq, SliceWidth};

/// Number of slices in the workload: two children send gradients for every slot of the window.
const SLICES: u32 = WINDOW;
/// Time for which each workload is measured.
const MEASURED: Duration = Duration::from_secs(3);
/// Offset of the sequence number in a frame.
const SEQ_OFFSET: usize = 14 + 20 + 8 + 8;

/// A function that changes a gradient for a workload.
type Change = fn(Sent) -> Sent;

/// Two children's gradients, slice by slice. Each round is one window further.
struct Workload {
    rig: Rig,
    frames: Vec<(u16, Vec<u8>)>,
    next: usize,
}

impl Workload {
    fn new(change: Change) -> Self {
        let frame = |seq, child: u8| {
            let sent = change(Sent::gradient(child, 2, seq, values(7 + i32::from(child))));
            (u16::from(child) + 1, sent.frame())
        };
        let frames = (0..SLICES).flat_map(|seq| [frame(seq + BASE, 0), frame(seq + BASE, 1)]).collect();
        Self { rig: Rig::aggregating(2), frames, next: 0 }
    }

    /// Processes one packet, and returns the number of frames that leave.
    fn step(&mut self) -> usize {
        let count = self.frames.len();
        let (port, frame) = &mut self.frames[self.next % count];
        self.next += 1;
        self.rig.outputs.clear();
        self.rig.switch.process(*port, frame, &mut self.rig.outputs);
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| frame[SEQ_OFFSET + byte]);
        let seq = Seq(u32::from_be_bytes([a, b, c, d])).plus(WINDOW);
        frame[SEQ_OFFSET..SEQ_OFFSET + 4].copy_from_slice(&seq.0.to_be_bytes());
        self.rig.outputs.len()
    }
}

/// Returns the processor time of this thread. Other processes may run on its core, too.
fn core_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).expect("a thread's time is not negative")
}

/// Measures a workload for a few seconds and prints packets and values per second.
fn report(name: &str, mut workload: Workload) {
    let (mut packets, mut left) = (0, 0);
    let (begin, core) = (Instant::now(), core_time());
    while begin.elapsed() < MEASURED {
        for _ in 0..1024 {
            left += workload.step();
        }
        packets += 1024;
    }
    let rate = f64::from(packets) / (core_time() - core).as_secs_f64();
    let values = rate * SliceWidth::ETHERNET.values() as f64;
    assert_eq!(left * 2, packets as usize, "every other packet has to complete a sum");
    println!("{name}: {rate:.0} packets/s, {values:.3e} values/s of one core");
}

fn main() {
    let workloads = [("sum", (|sent| sent) as Change), ("max", Sent::max)];
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("gradients");
    for (name, change) in workloads {
        let mut workload = Workload::new(change);
        group.throughput(Throughput::Elements(1));
        group.bench_function(name, |bencher| bencher.iter(|| workload.step()));
    }
    group.finish();
    criterion.final_summary();
    for (name, change) in workloads {
        report(name, Workload::new(change));
    }
}
