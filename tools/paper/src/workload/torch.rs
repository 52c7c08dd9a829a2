//! A model in PyTorch, in separate processes. Each process computes gradients for one thread at a time.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;

use super::Workload;

/// The kinds of requests to a process.
const INITIAL: u8 = 0;
const GRADIENT: u8 = 1;
const ACCURACY: u8 = 2;

/// A model of `examples/`, whose gradients `tools/paper/oracle.py` computes.
pub(crate) struct Torch {
    python: String,
    model: &'static str,
    parameters: usize,
    labels: Vec<usize>,
    /// Processes that no thread uses at present.
    idle: Mutex<Vec<Oracle>>,
}

impl Torch {
    /// Starts the first process.
    pub(crate) fn start(python: &str, model: &'static str) -> Result<Self> {
        let mut first = Oracle::start(python, model)?;
        let parameters = first.number()?;
        let samples = first.number()?;
        let labels = (0..samples).map(|_| first.number()).collect::<Result<_>>()?;
        Ok(Self { python: python.to_owned(), model, parameters, labels, idle: Mutex::new(vec![first]) })
    }

    /// Calls `ask` with an idle process, or with a new process if all are in use.
    fn with<T>(&self, ask: impl FnOnce(&mut Oracle) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().pop();
        let mut oracle = match idle {
            Some(oracle) => oracle,
            None => {
                let mut oracle = Oracle::start(&self.python, self.model)?;
                // A new process first writes the numbers that the first process wrote, which are skipped
                // here.
                for _ in 0..2 + self.labels.len() {
                    oracle.number()?;
                }
                oracle
            }
        };
        let answer = ask(&mut oracle)?;
        self.idle.lock().push(oracle);
        Ok(answer)
    }
}

impl Workload for Torch {
    fn parameters(&self) -> usize {
        self.parameters
    }

    fn initial(&self, seed: u64) -> Result<Vec<f32>> {
        self.with(|oracle| {
            oracle.ask(INITIAL, &[])?;
            oracle.write(&seed.to_le_bytes())?;
            let mut parameters = vec![0.0; self.parameters];
            oracle.read(&mut parameters)?;
            Ok(parameters)
        })
    }

    fn labels(&self) -> &[usize] {
        &self.labels
    }

    fn gradient(&self, parameters: &[f32], samples: &[usize], out: &mut [f32]) -> Result<()> {
        self.with(|oracle| {
            oracle.ask(GRADIENT, parameters)?;
            oracle.write(&u32::try_from(samples.len())?.to_le_bytes())?;
            for sample in samples {
                oracle.write(&u32::try_from(*sample)?.to_le_bytes())?;
            }
            oracle.read(out)
        })
    }

    fn accuracy(&self, parameters: &[f32]) -> Result<f64> {
        self.with(|oracle| {
            oracle.ask(ACCURACY, parameters)?;
            let mut accuracy = [0.0];
            oracle.read(&mut accuracy)?;
            Ok(f64::from(accuracy[0]))
        })
    }
}

/// A process that computes gradients. The numbers that it reads and writes are little-endian.
struct Oracle {
    process: Child,
    told: BufWriter<ChildStdin>,
    says: BufReader<ChildStdout>,
}

impl Oracle {
    fn start(python: &str, model: &str) -> Result<Self> {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("oracle.py");
        let started =
            Command::new(python).arg(&script).arg(model).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            started.with_context(|| format!("cannot start {python}: `make python` installs PyTorch"))?;
        let told = process.stdin.take().context("the process has no standard input")?;
        let says = process.stdout.take().context("the process has no standard output")?;
        Ok(Self { process, told: BufWriter::new(told), says: BufReader::new(says) })
    }

    fn ask(&mut self, what: u8, parameters: &[f32]) -> Result<()> {
        self.write(&[what])?;
        let bytes: Vec<u8> = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write(&bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.told.write_all(bytes).context(GONE)
    }

    fn read(&mut self, out: &mut [f32]) -> Result<()> {
        self.told.flush().context(GONE)?;
        let mut bytes = vec![0; size_of_val(out)];
        self.says.read_exact(&mut bytes).context(GONE)?;
        let (values, rest) = bytes.as_chunks();
        ensure!(rest.is_empty() && values.len() == out.len(), "the reply is not a whole number of values");
        out.iter_mut().zip(values).for_each(|(out, bytes)| *out = f32::from_le_bytes(*bytes));
        Ok(())
    }

    fn number(&mut self) -> Result<usize> {
        let mut bytes = [0; 4];
        self.says.read_exact(&mut bytes).context(GONE)?;
        Ok(usize::try_from(u32::from_le_bytes(bytes))?)
    }
}

const GONE: &str = "tools/paper/oracle.py has ended: see its output above; `make python` installs PyTorch";

impl Drop for Oracle {
    fn drop(&mut self) {
        // The process would end when its standard input closes. Killing it avoids the wait.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
