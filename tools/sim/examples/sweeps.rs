//! Prints the tables of `README.md`: `cargo run --release -p tributary-sim --example sweeps`.

use tributary_protocol::Downlink;
use tributary_sim::{Scenario, SimError, Sweep, sweep, table};

fn main() -> Result<(), SimError> {
    let losses = Sweep::default();
    let small = Scenario { elements: 256 << 10, ..Scenario::default() };
    let sweeps = [
        ("8 MiB of f32, 50 Mbit/s", losses.clone()),
        (
            "windows",
            Sweep { windows: vec![32, 64, 128, 512], losses: vec![0.0, 0.001, 0.01, 0.05], ..losses.clone() },
        ),
        (
            "unicast, 1 MiB",
            Sweep {
                base: small,
                downlinks: vec![Downlink::Unicast],
                losses: vec![0.0, 0.01],
                ..losses.clone()
            },
        ),
        ("one worker late", Sweep { late_ms: vec![0, 50, 200, 500], losses: vec![0.0], ..losses.clone() }),
        (
            "in one process: 20 operations of 400 KiB, hosts pause up to 5 ms",
            Sweep {
                base: Scenario::in_process(),
                windows: vec![64, 256],
                losses: vec![0.0, 0.001, 0.01, 0.05],
                seeds: 10,
                ..losses
            },
        ),
    ];
    for (name, each) in sweeps {
        println!("{name}\n{}\n", table(&sweep(&each)?));
    }
    Ok(())
}
