//! A rank's part in a job.

use std::env;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tributary_client::{Agent, ElementType, JoinOptions, MAX_PROCESSES, Waiting};

use crate::error::{Error, Kind};
use crate::memory::Memory;
use crate::runtime::runtime;

const DEFAULT_SOCKET: &str = "/run/tributary/agent.sock";

/// The terms on which a process joins. `None` means the default of the environment.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) job: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) process: Option<(u32, u32)>,
    pub(crate) new_run: bool,
    pub(crate) patience: Option<Duration>,
    pub(crate) deadline: Option<Duration>,
}

/// A rank's part in a job, which its requests share.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) client: tributary_client::Job,
    /// The ranks at the start, ascending.
    pub(crate) ranks: Vec<u32>,
    pub(crate) host: CString,
    pub(crate) deadline: Option<Duration>,
    pub(crate) memory: Memory,
}

impl Job {
    /// Joins a job. `waiting` receives reports of waits.
    pub(crate) fn join(
        terms: Terms,
        waiting: Option<impl Fn(&Waiting) + Send + Sync + 'static>,
    ) -> Result<Arc<Self>, Error> {
        let name = match terms.job {
            Some(name) => name,
            None => variable("TRIBUTARY_JOB")?
                .ok_or_else(|| Error::argument("no job: set TRIBUTARY_JOB, or give the job's name"))?,
        };
        let token_file = terms.token_file.or_else(|| env::var_os("TRIBUTARY_TOKEN_FILE").map(Into::into));
        let token_file = token_file
            .ok_or_else(|| Error::argument("no token: set TRIBUTARY_TOKEN_FILE, or give the token's file"))?;
        let socket = terms.socket.or_else(|| env::var_os("TRIBUTARY_SOCKET").map(Into::into));
        let socket = socket.unwrap_or_else(|| DEFAULT_SOCKET.into());
        let (process, processes) = match terms.process {
            Some(process) => process,
            None => (number("TRIBUTARY_PROCESS", 0)?, number("TRIBUTARY_PROCESSES", 1)?),
        };
        if process >= processes || processes > MAX_PROCESSES.into() {
            return Err(Error::argument(format!(
                "process {process} of {processes}: a host has 1 to {MAX_PROCESSES} processes in a job, with numbers from 0"
            )));
        }
        let token = read_token(&token_file)?;
        let mut options = JoinOptions::default().process(process, processes);
        if terms.new_run {
            options = options.new_run();
        }
        if let Some(deadline) = terms.deadline {
            options = options.deadline(deadline);
        }
        if let Some(waiting) = waiting {
            options = options.on_waiting(waiting);
        }
        let joining = async { Agent::connect(&socket).await?.join_with(&name, token, options).await };
        let joined = runtime()?.block_on(async {
            match terms.patience {
                Some(patience) => timeout(patience, joining).await.map_err(|_| patience),
                None => Ok(joining.await),
            }
        });
        let joined = joined.map_err(|patience| {
            let text = format!(
                "job \"{name}\" has not begun in {} s: check the processes of its other hosts (`tributary jobs list` shows \
                 the missing ones)",
                patience.as_secs_f64()
            );
            Error::new(Kind::DeadlinePassed, text)
        })?;
        let client = joined.map_err(|error| Error::joining(&error))?;
        let host = CString::new(client.host()).unwrap_or_default();
        let ranks = client.ranks();
        Ok(Arc::new(Self { client, ranks, host, deadline: terms.deadline, memory: Memory::default() }))
    }

    /// Returns the name of the job of a group of this job's ranks. The group's first call creates the job.
    pub(crate) fn open_group(&self, group: &str, ranks: Vec<u32>) -> Result<String, Error> {
        let opened = runtime()?.block_on(self.client.open_group(group, ranks));
        opened.map_err(|error| Error::calling(&error))
    }

    /// Checks that a sum with this number of contributors contains all ranks of the start.
    ///
    /// # Errors
    /// The error names the ranks that have left.
    pub(crate) fn check_whole(&self, name: &str, contributors: u32) -> Result<(), Error> {
        let size = self.ranks.len();
        if contributors as usize >= size {
            return Ok(());
        }
        let (present, lost) = (self.client.ranks(), self.client.lost());
        let missing = self.ranks.iter().filter(|rank| !present.contains(rank)).map(|rank| {
            let reason = lost.get(rank).map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("rank {rank} has left the job{reason}")
        });
        let mut missing = missing.collect::<Vec<_>>().join(", ");
        if missing.is_empty() {
            "one of them has left the job".clone_into(&mut missing);
        }
        Err(Error::new(
            Kind::NoSum,
            format!(
                "{name} was summed over {contributors} of {size} ranks: {missing}; check its process, its host and the path \
                 to it, and start all ranks again"
            ),
        ))
    }
}

/// Returns the element type of a number in the header, and its size in bytes.
pub(crate) fn element_type(number: u32) -> Result<(ElementType, usize), Error> {
    match number {
        1 => Ok((ElementType::F32, 4)),
        2 => Ok((ElementType::F32Exact, 4)),
        3 => Ok((ElementType::F16, 2)),
        4 => Ok((ElementType::Bf16, 2)),
        5 => Ok((ElementType::F64, 8)),
        6 => Ok((ElementType::I32, 4)),
        7 => Ok((ElementType::I64, 8)),
        8 => Ok((ElementType::F16Exact, 2)),
        9 => Ok((ElementType::Bf16Exact, 2)),
        _ => Err(Error::argument(format!("{number} is not a tributary_type"))),
    }
}

fn variable(name: &str) -> Result<Option<String>, Error> {
    match env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Error::argument(format!("{name}: {error}"))),
    }
}

fn number(name: &str, default: u32) -> Result<u32, Error> {
    let Some(value) = variable(name)? else { return Ok(default) };
    value.parse().map_err(|_| Error::argument(format!("{name}={value}: give a whole number")))
}

fn read_token(file: &Path) -> Result<Vec<u8>, Error> {
    let path = file.display();
    let text = tributary_files::read_secret(file)
        .map_err(|error| Error::argument(format!("cannot read the token in {path}: {error}")))?;
    hex::decode(text.trim())
        .map_err(|_| Error::argument(format!("{path} has no token: a token consists of hexadecimal digits")))
}
