//! A port that records its frames in captures.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tributary_link::{FramePort, Mark};

use crate::error::CaptureError;
use crate::writer::{CaptureWriter, Resolution};

/// A port with captures of the frames that it receives and sends.
///
/// If a capture cannot be written any more, the port closes the capture, logs a line, and continues without it.
#[derive(Debug)]
pub struct Recorded<P> {
    port: P,
    received: Recording,
    sent: Recording,
}

impl<P: FramePort> Recorded<P> {
    /// Creates a port that records `port` in `folder`, in the files `NAME_in.pcap` and `NAME_out.pcap`.
    /// simple_switch uses the same names.
    ///
    /// # Errors
    /// [`CaptureError`] if a file cannot be created.
    pub fn new(port: P, folder: &Path, name: &str) -> Result<Self, CaptureError> {
        let recording = |direction| Recording::create(&folder.join(format!("{name}_{direction}.pcap")));
        Ok(Self { port, received: recording("in")?, sent: recording("out")? })
    }
}

impl<P: FramePort> FramePort for Recorded<P> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.sent.write(&[frame]);
        self.port.send(frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sent.flush();
        self.port.flush()
    }

    fn send_all(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        self.sent.write(frames);
        self.sent.flush();
        self.port.send_all(frames)
    }

    fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        match self.port.receive() {
            Ok(Some(frame)) => {
                self.received.write(&[frame]);
                Ok(Some(frame))
            }
            other => {
                self.received.flush();
                other
            }
        }
    }

    fn longest_frame(&self) -> usize {
        self.port.longest_frame()
    }

    fn shortest_frame(&self) -> usize {
        self.port.shortest_frame()
    }

    fn pass_only(&mut self, marks: &[Mark]) -> io::Result<()> {
        self.port.pass_only(marks)
    }

    fn register(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        self.port.register(registry, token)
    }
}

/// The capture of one direction.
#[derive(Debug)]
struct Recording {
    /// The writer of the capture; `None` after an error.
    writer: Option<CaptureWriter>,
    /// True if frames were written since the last flush.
    is_new: bool,
}

impl Recording {
    /// Creates the file and writes its header, so that the file is a valid capture even before the first
    /// frame.
    fn create(path: &Path) -> Result<Self, CaptureError> {
        let mut writer = CaptureWriter::create(path, Resolution::Microseconds)?;
        writer.flush()?;
        Ok(Self { writer: Some(writer), is_new: false })
    }

    fn write(&mut self, frames: &[&[u8]]) {
        let Some(writer) = &mut self.writer else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let written = frames.iter().try_for_each(|frame| writer.write(now, frame));
        self.is_new = !frames.is_empty();
        self.give_up_after(written);
    }

    fn flush(&mut self) {
        let Some(writer) = self.writer.as_mut().filter(|_| self.is_new) else { return };
        self.is_new = false;
        let flushed = writer.flush();
        self.give_up_after(flushed);
    }

    fn give_up_after(&mut self, outcome: Result<(), CaptureError>) {
        if let Err(error) = outcome {
            tracing::warn!(%error, "a recording is given up");
            self.writer = None;
        }
    }
}
