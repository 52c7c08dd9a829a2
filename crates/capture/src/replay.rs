//! Ports that read captures in place of links.
//!
//! All ports share a *timeline*, which merges their captures. A port returns a frame only if it is the next frame of
//! all captures. The port then reports that no more frames are waiting, so that its owner sends its answers to this
//! frame before the next frame arrives. The order of all received and sent frames therefore depends only on the files.
//! A sent frame gets the time of the last received frame.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tributary_link::{FramePort, InterfaceMeter};

use crate::error::{CaptureError, Problem, check_is_file};
use crate::reader::CaptureReader;
use crate::writer::{CaptureWriter, Resolution};

/// The captures of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortFiles {
    /// The capture of received frames; `None` if the port receives no frames.
    pub input: Option<PathBuf>,
    /// The file to which the port writes sent frames; `None` if the port only counts them.
    pub output: Option<PathBuf>,
}

/// Creates a port for each pair of files. No port may write to one of the files in `others`.
///
/// The timeline calls `ended` once, after the ports have read all captures and their owner has sent its answers. The
/// argument is the first error of reading or writing, if any. A damaged capture ends at the damage, and the other
/// captures continue.
///
/// # Errors
/// [`CaptureError`] if a file cannot be opened or created, if a file to write is given twice, or if an input is not a
/// capture.
pub fn replay(
    files: &[PortFiles],
    others: &[PathBuf],
    ended: impl FnOnce(Option<CaptureError>) + Send + 'static,
) -> Result<Vec<ReplayPort>, CaptureError> {
    let inputs = files.iter().map(|files| files.input.as_deref().map(CaptureReader::open).transpose());
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    check_outputs(files, others)?;
    let is_fine = inputs.iter().flatten().any(CaptureReader::is_fine);
    let resolution = if is_fine { Resolution::Nanoseconds } else { Resolution::Microseconds };
    let output = |files: &PortFiles| {
        let path = files.output.as_deref()?;
        Some(CaptureWriter::create(path, resolution).and_then(|mut writer| writer.flush().map(|()| writer)))
    };
    let outputs = files.iter().map(|files| output(files).transpose()).collect::<Result<Vec<_>, _>>()?;
    let inputs = inputs.into_iter().map(|reader| Input { reader, next: None, frame: Vec::new() }).collect();
    let mut timeline = Timeline { inputs, now: Duration::ZERO, error: None, ended: Some(Box::new(ended)) };
    (0..files.len()).for_each(|port| timeline.read_on(port));
    let timeline = Arc::new(Mutex::new(timeline));
    let port = |(number, output)| ReplayPort {
        number,
        timeline: Arc::clone(&timeline),
        frame: Vec::new(),
        is_handed_out: false,
        output,
        meter: InterfaceMeter::default(),
    };
    Ok(outputs.into_iter().enumerate().map(port).collect())
}

/// Checks that no output file is given twice, or is also an input or one of `others`. It must run
/// before any file is emptied.
fn check_outputs(files: &[PortFiles], others: &[PathBuf]) -> Result<(), CaptureError> {
    let identity = |file: &File| file.metadata().map(|about| (about.dev(), about.ino()));
    let mut seen = HashSet::new();
    let inputs = files.iter().filter_map(|files| files.input.as_deref());
    for path in inputs.chain(others.iter().map(PathBuf::as_path)) {
        let about = path.metadata().map_err(|error| CaptureError::at(path, Problem::Open(error)))?;
        seen.insert((about.dev(), about.ino()));
    }
    for path in files.iter().filter_map(|files| files.output.as_deref()) {
        check_is_file(path)?;
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let identity = file
            .and_then(|file| identity(&file))
            .map_err(|error| CaptureError::at(path, Problem::Create(error)))?;
        if !seen.insert(identity) {
            return Err(CaptureError::at(path, Problem::Twice));
        }
    }
    Ok(())
}

/// A port that replays a capture; see [`replay`].
pub struct ReplayPort {
    /// The index of the port in the timeline.
    number: usize,
    timeline: Arc<Mutex<Timeline>>,
    /// The frame that the port returned last.
    frame: Vec<u8>,
    /// True if the port has returned a frame whose answers may not have been sent yet.
    is_handed_out: bool,
    output: Option<CaptureWriter>,
    meter: InterfaceMeter,
}

impl ReplayPort {
    /// Returns the counters of the received and sent frames.
    pub fn meter(&self) -> &InterfaceMeter {
        &self.meter
    }

    fn write(&mut self, frames: &[&[u8]]) -> Result<(), CaptureError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let now = self.timeline.lock().now;
        frames.iter().try_for_each(|frame| output.write(now, frame))
    }

    /// Keeps an error for the end of the replay. The port cannot be used any more.
    fn failed(&mut self, error: CaptureError) -> io::Error {
        let said = io::Error::other(error.to_string());
        self.timeline.lock().error.get_or_insert(error);
        said
    }
}

impl fmt::Debug for ReplayPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayPort").field("number", &self.number).finish_non_exhaustive()
    }
}

impl FramePort for ReplayPort {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.meter.sent.count_carried(frame.len());
        self.write(&[frame]).map_err(|error| self.failed(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.output.as_mut().map_or(Ok(()), CaptureWriter::flush);
        flushed.map_err(|error| self.failed(error))
    }

    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        frames.iter().for_each(|frame| self.meter.sent.count_carried(frame.len()));
        self.write(frames).map_err(|error| self.failed(error))?;
        self.flush()
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        self.is_handed_out = !self.is_handed_out && self.timeline.lock().take(self.number, &mut self.frame);
        if !self.is_handed_out {
            return Ok(None);
        }
        self.meter.received.count_carried(self.frame.len());
        Ok(Some(&self.frame))
    }

    /// Returns 0, because programs under test may send frames that are too short for a link, and a
    /// capture accepts them.
    fn shortest_frame(&self) -> usize {
        0
    }

    /// Does nothing, because frames are available from the beginning, so that the owner never waits for
    /// them.
    fn register(&mut self, _registry: &mio::Registry, _token: mio::Token) -> io::Result<()> {
        Ok(())
    }
}

type Ended = Box<dyn FnOnce(Option<CaptureError>) + Send>;

/// The captures of all ports, merged by time.
struct Timeline {
    inputs: Vec<Input>,
    /// The time of the last frame that a port has taken.
    now: Duration,
    /// The first error.
    error: Option<CaptureError>,
    /// The function to call at the end; `None` after the call.
    ended: Option<Ended>,
}

/// The capture of one port.
struct Input {
    /// The reader; `None` at the end of the capture.
    reader: Option<CaptureReader<File>>,
    /// The time of the next frame, which is in `frame`; `None` at the end of the capture.
    next: Option<Duration>,
    frame: Vec<u8>,
}

impl Timeline {
    /// Takes the next frame of all captures, if it belongs to `port`. If several frames have the same
    /// time, the frame of the port with the lowest index is first.
    fn take(&mut self, port: usize, frame: &mut Vec<u8>) -> bool {
        let times = self.inputs.iter().enumerate().filter_map(|(port, input)| Some((input.next?, port)));
        match times.min() {
            Some((at, next)) if next == port => {
                self.now = at;
                std::mem::swap(frame, &mut self.inputs[port].frame);
                self.read_on(port);
                true
            }
            Some(_) => false,
            None => {
                if let Some(ended) = self.ended.take() {
                    ended(self.error.take());
                }
                false
            }
        }
    }

    /// Reads the next frame of a port.
    fn read_on(&mut self, port: usize) {
        let Input { reader, next, frame } = &mut self.inputs[port];
        *next = None;
        let Some(source) = reader else { return };
        match source.next_frame() {
            Ok(Some(read)) => {
                *next = Some(read.at);
                frame.clear();
                frame.extend_from_slice(read.bytes);
            }
            Ok(None) => *reader = None,
            Err(error) => {
                *reader = None;
                self.error.get_or_insert(error);
            }
        }
    }
}
