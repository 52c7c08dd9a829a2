//! Ports whose links are captures.
//!
//! All ports share a *timeline*, which merges their captures. A port returns a frame only if it is the next frame of
//! all captures. Then it reports that no more frames are waiting, so that its owner sends its answers to this frame
//! before the next frame comes. So the order of frames, in and out, follows from the files alone; a sent frame has the
//! time of the last received frame.

use std::collections::HashSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tributary_link::{FramePort, InterfaceMeter};

use crate::error::{CaptureError, Problem, check_is_file};
use crate::reader::CaptureReader;
use crate::writer::{CaptureWriter, Resolution};

/// The captures of one port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortFiles {
    /// The capture of received frames; `None`: the port receives no frames.
    pub input: Option<PathBuf>,
    /// The capture to write sent frames to; `None`: the port only counts them.
    pub output: Option<PathBuf>,
}

/// Makes a port of each pair of files; none of the ports writes to one of `others`.
///
/// The ports call `ended` once, when they have read all captures and their owner has sent its answers. Its argument is
/// the first error of reading or writing, if any. A damaged capture ends at the damage, and the other captures
/// continue.
///
/// # Errors
/// [`CaptureError`]: a file cannot be opened or created, or is not a capture.
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

/// Checks, before any file is emptied, that no file that is written to is given
/// twice or one of `others`.
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

/// A port whose link is a capture; see [`replay`].
pub struct ReplayPort {
    /// Its index in the timeline.
    number: usize,
    timeline: Arc<Mutex<Timeline>>,
    /// The frame that was handed out last.
    frame: Vec<u8>,
    /// A frame was handed out, and what became of it may not have been sent yet.
    is_handed_out: bool,
    output: Option<CaptureWriter>,
    meter: InterfaceMeter,
}

impl ReplayPort {
    /// The frames that came in and left.
    pub fn meter(&self) -> &InterfaceMeter {
        &self.meter
    }

    fn write(&mut self, frames: &[&[u8]]) -> Result<(), CaptureError> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let now = lock(&self.timeline).now;
        frames.iter().try_for_each(|frame| output.write(now, frame))
    }

    /// Remembers an error for the end. The port cannot be used any more.
    fn failed(&mut self, error: CaptureError) -> io::Error {
        let said = io::Error::other(error.to_string());
        lock(&self.timeline).error.get_or_insert(error);
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
        self.is_handed_out = !self.is_handed_out && lock(&self.timeline).take(self.number, &mut self.frame);
        if !self.is_handed_out {
            return Ok(None);
        }
        self.meter.received.count_carried(self.frame.len());
        Ok(Some(&self.frame))
    }

    /// A capture takes what no link would: programs under test send such frames.
    fn shortest_frame(&self) -> usize {
        0
    }

    /// Frames are available from the beginning, so the owner never waits for them.
    fn register(&mut self, _registry: &mio::Registry, _token: mio::Token) -> io::Result<()> {
        Ok(())
    }
}

type Ended = Box<dyn FnOnce(Option<CaptureError>) + Send>;

/// The captures of all ports, merged.
struct Timeline {
    inputs: Vec<Input>,
    /// The time of the frame that was taken last.
    now: Duration,
    /// The first error.
    error: Option<CaptureError>,
    /// `None` once it was called.
    ended: Option<Ended>,
}

/// The capture of one port.
struct Input {
    /// `None` at its end.
    reader: Option<CaptureReader<File>>,
    /// The time of the next frame, which is in `frame`; `None` at the end.
    next: Option<Duration>,
    frame: Vec<u8>,
}

impl Timeline {
    /// Takes the next frame of all, if it is this port's.
    /// The first of several with the same time is that of the first port.
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

    /// Reads a port's next frame.
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

/// A panic while it was locked left it as it is: nothing is half done between its lines.
fn lock(timeline: &Mutex<Timeline>) -> MutexGuard<'_, Timeline> {
    timeline.lock()
}
