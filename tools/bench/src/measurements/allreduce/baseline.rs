//! Finds the other implementations that are installed on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use tributary_bench::comparison::{Contender, Elements, Skipped};

const INSTALL: &str = "make bench-tools";
const GLOO_VERSION: &str =
    "import torch, torch.distributed as d; assert d.is_gloo_available(); print('PyTorch', torch.__version__)";

/// Contenders that can be measured, with their versions, and those that cannot.
#[derive(Debug)]
pub(super) struct Baselines {
    pub(super) versions: BTreeMap<Contender, String>,
    pub(super) skipped: Vec<Skipped>,
}

impl Baselines {
    /// Finds the requested contenders.
    pub(super) fn find(contenders: &[Contender], elements: Elements, python: &Path) -> Self {
        let mut found = Self { versions: BTreeMap::new(), skipped: Vec::new() };
        for &contender in contenders {
            let version = match contender {
                Contender::Ours | Contender::Leaf | Contender::Server => {
                    Ok(format!("tributary {}", env!("CARGO_PKG_VERSION")))
                }
                Contender::Gloo => ask(Command::new(python).args(["-c", GLOO_VERSION])),
                Contender::OpenMpi | Contender::OpenMpiRing if elements != Elements::F32 => {
                    found.skipped.push(Skipped {
                        contender,
                        reason: format!("MPI has no sums of {}", elements.name()),
                        install: None,
                    });
                    continue;
                }
                Contender::OpenMpi | Contender::OpenMpiRing => ask(Command::new("mpicc").arg("--version"))
                    .and_then(|_| ask(Command::new("mpirun").arg("--version"))),
            };
            match version {
                Ok(version) => {
                    found.versions.insert(contender, version);
                }
                Err(reason) => {
                    found.skipped.push(Skipped { contender, reason, install: Some(INSTALL.to_owned()) });
                }
            }
        }
        found
    }

    /// Returns the reason why no contender can be measured.
    pub(super) fn why_not(&self) -> String {
        let reason = |Skipped { contender, reason, install }: &Skipped| match install {
            Some(install) => format!("{contender} ({reason}; `{install}`)"),
            None => format!("{contender} ({reason})"),
        };
        match self.skipped.iter().map(reason).collect::<Vec<_>>().join(", ") {
            reasons if reasons.is_empty() => {
                "`leaf` and `server` are measured without losses only".to_owned()
            }
            reasons => reasons,
        }
    }

    pub(super) fn has(&self, contender: Contender) -> bool {
        self.versions.contains_key(&contender)
    }
}

/// Runs a program. Returns the first line that it prints, or the reason why it cannot run.
fn ask(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    let line = |text: &[u8], last: bool| {
        let text = String::from_utf8_lossy(text);
        let mut lines = text.trim().lines();
        if last { lines.next_back() } else { lines.next() }.unwrap_or_default().to_owned()
    };
    if output.status.success() {
        Ok(line(&output.stdout, false))
    } else {
        Err(format!("{program}: {}", line(&output.stderr, true)))
    }
}
