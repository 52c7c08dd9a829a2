//! The control plane's handle on a running switch.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::Waker;
use tokio::sync::oneshot;

use super::state::EngineState;
use crate::control::Notification;
use crate::error::ControlError;
use crate::packet_log::PacketLog;
use crate::pipeline::Pipeline;
use crate::switch::Switch;

/// Work that the switch's thread does between two packets.
pub(super) type Request = Box<dyn FnOnce(&mut EngineState) + Send>;

/// Frames that the switch sends to the CPU port.
/// They begin with the program's `packet_in` controller header in wire format. When they are not read fast enough, the
/// newest are dropped.
pub type PacketIns = tokio::sync::mpsc::Receiver<Vec<u8>>;

/// Receives the switch's notifications to its controller.
/// If the receiver is full, the newest are dropped.
pub type Notifications = tokio::sync::mpsc::Receiver<Notification>;

/// A handle on a running switch, for the control plane. It is cheap to clone.
#[derive(Clone)]
pub struct Control {
    requests: Sender<Request>,
    waker: Arc<Waker>,
    log: Option<PacketLog>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}

impl Control {
    pub(super) fn new(requests: Sender<Request>, waker: Arc<Waker>) -> Self {
        Self { requests, waker, log: None }
    }

    /// Returns a handle that loads programs with this packet log.
    #[must_use]
    pub fn with_log(self, log: Option<PacketLog>) -> Self {
        Self { log, ..self }
    }

    /// Returns the log for the packets of a program.
    pub(crate) fn log(&self) -> Option<PacketLog> {
        self.log.clone()
    }

    /// Starts `pipeline` in place of the running program.
    ///
    /// Its tables are empty, and its counters, registers and groups are cleared. Compile the
    /// pipeline with [`Pipeline::load`] first, on a thread that may block, because that takes
    /// milliseconds.
    ///
    /// # Errors
    /// [`ControlError::Stopped`].
    pub async fn commit(&self, pipeline: Arc<Pipeline>) -> Result<(), ControlError> {
        self.install(Switch::new(pipeline)).await
    }

    /// Starts a switch whose tables are already filled, in place of the running one.
    /// The switch is installed even if the returned future is dropped.
    ///
    /// # Errors
    /// [`ControlError::Stopped`].
    pub async fn install(&self, switch: Switch) -> Result<(), ControlError> {
        // The old switch is dropped on this thread, so that freeing its memory does not delay
        // packets.
        let replace = move |core: &mut EngineState| {
            let before = core.switch.replace(switch);
            core.tell_ports();
            before
        };
        self.request(replace).await.map(drop)
    }

    /// Runs `work` on the switch's own thread between two packets, and returns its result.
    /// Packets see all changes of `work` at once. They wait while it runs, so keep it short (one
    /// batch of updates). The work is done even if the returned future is dropped.
    ///
    /// # Errors
    /// [`ControlError::NoPipeline`] before the first commit, [`ControlError::Stopped`] after the
    /// end.
    pub async fn run<R, F>(&self, work: F) -> Result<R, ControlError>
    where
        R: Send + 'static,
        F: FnOnce(&mut Switch) -> R + Send + 'static,
    {
        let result = self.request(|core| core.switch.as_mut().map(work)).await?;
        result.ok_or(ControlError::NoPipeline)
    }

    /// Processes a frame as if the CPU port had received it.
    ///
    /// The frame begins with the program's `packet_out` controller header in wire format (fields
    /// packed from the first bit on).
    ///
    /// # Errors
    /// [`ControlError::NoPipeline`], [`ControlError::Stopped`].
    pub async fn packet_out(&self, frame: Vec<u8>) -> Result<(), ControlError> {
        let process = move |core: &mut EngineState| {
            let port = core.ports.cpu_port();
            core.inject(port, &frame);
            core.switch.is_some()
        };
        if self.request(process).await? { Ok(()) } else { Err(ControlError::NoPipeline) }
    }

    /// Ends the thread if it still runs.
    pub(super) fn stop(&self) {
        // An error means that the thread has already ended.
        let _ = self.send(Box::new(|core| core.stopping = true));
    }

    async fn request<R, F>(&self, work: F) -> Result<R, ControlError>
    where
        R: Send + 'static,
        F: FnOnce(&mut EngineState) -> R + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        self.send(Box::new(move |core| {
            // The result is dropped if the caller no longer waits for it.
            let _ = reply.send(work(core));
        }))?;
        result.await.map_err(|_| ControlError::Stopped)
    }

    fn send(&self, request: Request) -> Result<(), ControlError> {
        self.requests.send(request).map_err(|_| ControlError::Stopped)?;
        self.waker.wake().map_err(|_| ControlError::Stopped)
    }
}
