//! Trainings on shaped links of this machine.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{self, Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tributary_lab::{Lab, LabOptions, SwitchKind};
use tributary_topology::Topology;

use super::Candidate;

const WORKERS: u16 = 8;
const PORT: u16 = 29812;
const JOB: &str = "codecs";
/// The rate at which synchronous training needs the fewest rounds to an accuracy of 90 %
/// (`docs/results/policies-digits`).
pub(super) const LEARNING_RATE: f32 = 0.4;

/// The exit status after SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// A network in which the workers and the server are linked to one plain switch.
pub(super) struct Network {
    lab: Lab,
    address: String,
}

/// A point of a training's curve, in the format of `tributary ps worker --curve`.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct CurvePoint {
    pub(super) seconds: f64,
    pub(super) iteration: u32,
    pub(super) accuracy: f64,
}

/// The curve of a training, and the bytes of its frames on the server's link.
pub(super) struct TrainingCurve {
    pub(super) curve: Vec<CurvePoint>,
    pub(super) into_server: u64,
    pub(super) out_of_server: u64,
}

impl TrainingCurve {
    pub(super) fn seconds(&self) -> f64 {
        self.curve.last().map_or(0.0, |point| point.seconds)
    }

    pub(super) fn accuracy(&self) -> f64 {
        self.curve.last().map_or(0.0, |point| point.accuracy)
    }
}

fn lab_name() -> String {
    format!("paper-{}", process::id())
}

/// Removes the network when a signal ends this process.
pub(super) fn leave_nothing_behind() -> Result<()> {
    ctrlc::set_handler(|| {
        let removed = Lab::clean(&lab_name());
        if let Err(error) = removed {
            eprintln!("error: {error}");
        }
        process::exit(INTERRUPTED);
    })
    .context("cannot listen for signals")
}

impl Network {
    /// Makes the network.
    pub(super) fn up(rate: &str) -> Result<Self> {
        let mut text = format!("name = \"star\"\n[defaults]\nrate = \"{rate}\"\n");
        let mut node = |kind: &str, name: &str, more: &str| {
            let _ = write!(text, "[[{kind}]]\nname = \"{name}\"\n{more}\n");
        };
        node("switch", "middle", "programmable = false");
        node("host", "ps", "role = \"server\"");
        let workers: Vec<String> = (0..WORKERS).map(|worker| format!("w{worker}")).collect();
        workers.iter().for_each(|worker| node("host", worker, "role = \"worker\""));
        for host in workers.iter().map(String::as_str).chain(["ps"]) {
            let _ = writeln!(text, "[[link]]\nends = [\"middle\", \"{host}\"]");
        }
        let topology = Topology::parse(&text, "star")?;
        let server =
            topology.find("ps").and_then(|key| topology[key].host()).context("the topology has no server")?;
        let options =
            LabOptions { switches: SwitchKind::Bridge, static_arp: true, ..LabOptions::new(lab_name()) };
        Ok(Self { lab: Lab::up(&topology, &options)?, address: format!("{}:{PORT}", server.ip) })
    }

    /// Trains with these codecs.
    pub(super) fn train(
        &self,
        tributary: &Path,
        candidate: &Candidate,
        seed: u64,
        iterations: u32,
    ) -> Result<TrainingCurve> {
        let tributary = fs::canonicalize(tributary).with_context(|| format!("no {}", tributary.display()))?;
        let job = self.lab.folder().join("job.toml");
        let text = format!(
            "name = \"{JOB}\"\nworkers = {WORKERS}\npolicy = \"bsp\"\nepoch-iterations = 10\n\
             learning-rate = {LEARNING_RATE}\n"
        );
        fs::write(&job, text)?;
        let mut server = self.lab.command("ps", &tributary)?;
        server.args(["server", "--ps-listen", &self.address, "--ps-job"]).arg(&job);
        let server = Ended(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let curve = self.lab.folder().join("curve.csv");
        let before = self.carried()?;
        let workers = (0..WORKERS).map(|worker| {
            let mut command = self.lab.command(&format!("w{worker}"), &tributary)?;
            command.args(["ps", "worker", "--server", &self.address, "--job", JOB, "--json"]);
            command.args(["--worker", &worker.to_string(), "--workers", &WORKERS.to_string()]);
            command.args(["--iterations", &iterations.to_string(), "--seed", &seed.to_string()]);
            command.args(["--codec", candidate.codec, "--parameters-codec", candidate.back]);
            if candidate.by_layer {
                command.arg("--by-layer");
            }
            if worker == 0 {
                command.arg("--curve").arg(&curve);
            }
            Ok(Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?))
        });
        for worker in workers.collect::<Result<Vec<_>>>()? {
            worker.succeed()?;
        }
        let after = self.carried()?;
        drop(server);
        let curve = csv::Reader::from_path(&curve)?.deserialize().collect::<Result<Vec<CurvePoint>, _>>()?;
        ensure!(!curve.is_empty(), "the training left no curve");
        Ok(TrainingCurve { curve, into_server: after.0 - before.0, out_of_server: after.1 - before.1 })
    }

    /// Returns the bytes that the server's link has received and sent since its start.
    fn carried(&self) -> Result<(u64, u64)> {
        let interface = self.lab.interfaces("ps")?.first().context("the server has no link")?.name.clone();
        let read = |what: &str| -> Result<u64> {
            let mut command = self.lab.command("ps", "cat")?;
            command.arg(format!("/sys/class/net/{interface}/statistics/{what}_bytes"));
            Ok(text(&mut command)?.trim().parse()?)
        };
        Ok((read("rx")?, read("tx")?))
    }
}

fn text(command: &mut Command) -> Result<String> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// A process that is killed when this value is dropped.
struct Ended(Child);

impl Ended {
    fn succeed(mut self) -> Result<()> {
        let status = self.0.wait()?;
        if status.success() {
            return Ok(());
        }
        let said = self.0.stderr.take().map(std::io::read_to_string).transpose()?.unwrap_or_default();
        bail!("a worker failed: {}", said.trim());
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
