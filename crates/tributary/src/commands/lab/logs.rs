//! `tributary lab logs`: prints the logs of a lab's daemons.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use tributary_cli::output;
use tributary_lab::Lab;

use crate::lab::operations::{WhichLab, station, why_none_runs};
use crate::lab::{Record, log_file};

/// The interval of checks for new lines. It is short, because a user watches the output.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The length of a timestamp such as `2026-01-31T23:59:59.123456Z`, with which a daemon's lines begin.
const TIME_LENGTH: usize = 27;

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Show only the log of this node's daemon: a node of the topology, or `controller`
    node: Option<String>,

    #[command(flatten)]
    lab: WhichLab,

    /// Continue with new lines, until interrupted or the lab is removed
    #[arg(long, short)]
    follow: bool,
}

/// Prints the log of one daemon unchanged, or merges the logs of all daemons by time, with the node's
/// name before each line.
///
/// # Errors
/// The lab or the node does not exist, no daemon runs there, or a log cannot be read.
pub(super) fn run(args: &LogsArgs) -> Result<()> {
    let lab = args.lab.open()?;
    let record = Record::load(&lab)?;
    let mut logs = match &args.node {
        Some(node) => vec![one(&lab, record, station(&lab, node))?],
        None => all(&lab, &record),
    };
    match copy(&lab, &mut logs, args.follow) {
        // The reader, such as `head`, has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        copied => copied.context("cannot show the logs"),
    }
}

fn one(lab: &Lab, mut record: Record, node: &str) -> Result<Log> {
    let station = record.station_mut(lab, node)?;
    if station.launch.is_none() {
        bail!("{}", why_none_runs(lab, station)?);
    }
    Ok(Log::new(String::new(), log_file(&lab.folder(), node)))
}

fn all(lab: &Lab, record: &Record) -> Vec<Log> {
    let with_daemons = record.stations().iter().filter(|station| station.launch.is_some());
    let log = |name: &str| Log::new(format!("{name}: "), log_file(&lab.folder(), name));
    with_daemons.map(|station| log(&station.name)).collect()
}

fn copy(lab: &Lab, logs: &mut [Log], follow: bool) -> io::Result<()> {
    let mut to = io::stdout().lock();
    loop {
        copy_by_time(logs, &mut to)?;
        to.flush()?;
        if !follow || !output::is_read() || !lab.folder().exists() {
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Copies all whole lines in the order of their times. Lines with the same time are copied in the order
/// of the logs.
fn copy_by_time(logs: &mut [Log], to: &mut impl Write) -> io::Result<()> {
    for log in &mut *logs {
        log.advance()?;
    }
    loop {
        let oldest = logs.iter_mut().filter(|log| log.is_whole()).min_by(|a, b| a.time.cmp(&b.time));
        let Some(log) = oldest else { return Ok(()) };
        to.write_all(log.prefix.as_bytes())?;
        to.write_all(&log.line)?;
        log.line.clear();
        log.advance()?;
    }
}

/// A log file, read line by line.
#[derive(Debug)]
struct Log {
    /// The text before each line.
    prefix: String,
    path: PathBuf,
    /// The open file; `None` until it exists.
    file: Option<BufReader<File>>,
    /// The next line to print. It may be incomplete.
    line: Vec<u8>,
    /// The latest time up to this line.
    ///
    /// A line without a time, such as the output of another program, belongs to the previous line. The same
    /// applies to a line with an earlier time: threads read the clock before they write, and one may
    /// overtake another.
    time: Vec<u8>,
}

impl Log {
    fn new(prefix: String, path: PathBuf) -> Self {
        Self { prefix, path, file: None, line: Vec::new(), time: Vec::new() }
    }

    /// Reads more of the next line, unless the line is complete.
    fn advance(&mut self) -> io::Result<()> {
        if self.is_whole() {
            return Ok(());
        }
        if self.file.is_none() {
            match File::open(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                opened => self.file = Some(BufReader::new(opened?)),
            }
        }
        if let Some(file) = &mut self.file {
            file.read_until(b'\n', &mut self.line)?;
        }
        if let Some(time) = time(&self.line).filter(|time| *time > self.time.as_slice()) {
            self.time = time.to_vec();
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.line.ends_with(b"\n")
    }
}

/// Returns the timestamp at the beginning of a line. All timestamps have the same length, so text order
/// is time order.
fn time(line: &[u8]) -> Option<&[u8]> {
    let time = line.get(..TIME_LENGTH)?;
    let is_time = time.ends_with(b"Z") && time.get(10) == Some(&b'T') && time[0].is_ascii_digit();
    is_time.then_some(time)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    #[test]
    fn a_line_that_another_thread_has_overtaken_stays_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let at = |second: u8, what: &str| format!("2026-11-26T07:00:{second:02}.000000Z  INFO {what}\n");
        fs::write(file("a"), at(3, "written first") + &at(1, "overtaken") + &at(4, "last")).unwrap();
        fs::write(file("b"), at(2, "two") + &at(4, "of the same time")).unwrap();
        let mut logs = ["a", "b"].map(|name| Log::new(String::new(), file(name)));
        let mut copied = Vec::new();
        copy_by_time(&mut logs, &mut copied).unwrap();
        let merged = [at(2, "two"), at(3, "written first"), at(1, "overtaken"), at(4, "last")].concat();
        assert_eq!(String::from_utf8(copied).unwrap(), merged + &at(4, "of the same time"));
    }

    #[test]
    fn lines_of_several_logs_are_in_order_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let mut logs = ["a", "b"].map(|name| Log::new(format!("{name}: "), file(name)));
        let mut copied = move || {
            let mut to = Vec::new();
            copy_by_time(&mut logs, &mut to).unwrap();
            String::from_utf8(to).unwrap()
        };
        let at = |second: u8, what: &str| format!("2026-11-26T07:00:{second:02}.000000Z  INFO {what}\n");
        assert_eq!(copied(), "", "nothing has been logged yet");
        fs::write(file("a"), at(1, "one") + "  more of it\n" + &at(4, "four") + "2026-11-2").unwrap();
        fs::write(file("b"), at(2, "two")).unwrap();
        let first = format!("a: {}a:   more of it\nb: {}a: {}", at(1, "one"), at(2, "two"), at(4, "four"));
        assert_eq!(copied(), first);
        // The incomplete line is copied once its end has been written.
        OpenOptions::new().append(true).open(file("a")).unwrap().write_all(b"6T\n").unwrap();
        assert_eq!(copied(), "a: 2026-11-26T\n");
        assert_eq!(copied(), "");
    }
}
