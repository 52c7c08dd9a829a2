//! The thread that owns a switch and its ports.

use std::sync::Arc;

use crate::error::ControlError;
use crate::pipeline::Pipeline;
use crate::switch::Switch;

/// A handle on a running switch, for the control plane. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Control {}

impl Control {
    /// Starts `pipeline` with empty tables and cleared counters, registers and groups, in place of what ran
    /// before. Compile it with [`Pipeline::load`] first, off the async threads: that takes milliseconds.
    ///
    /// # Errors
    /// [`ControlError::Stopped`].
    pub async fn commit(&self, pipeline: Arc<Pipeline>) -> Result<(), ControlError> {
        let _ = pipeline;
        Err(ControlError::Stopped)
    }

    /// Runs `work` on the switch's own thread between two packets, and gives back what it returns. All of
    /// it happens at once as packets see it; packets wait meanwhile, so keep it short (one batch of updates).
    ///
    /// # Errors
    /// [`ControlError::NoPipeline`] before the first commit, [`ControlError::Stopped`] after the end.
    pub async fn run<R, F>(&self, work: F) -> Result<R, ControlError>
    where
        R: Send + 'static,
        F: FnOnce(&mut Switch) -> R + Send + 'static,
    {
        drop(work);
        Err(ControlError::Stopped)
    }

    /// Hands the switch a frame as if it had come in at the CPU port: it begins with the program's
    /// `packet_out` controller header, already in wire format (fields packed from the first bit on).
    ///
    /// # Errors
    /// [`ControlError::NoPipeline`], [`ControlError::Stopped`].
    pub async fn packet_out(&self, frame: Vec<u8>) -> Result<(), ControlError> {
        drop(frame);
        Err(ControlError::Stopped)
    }
}

/// What the switch sends to the CPU port: frames that begin with the program's `packet_in` controller
/// header in wire format. When nobody reads them fast enough, the newest are dropped and counted.
pub type PacketIns = tokio::sync::mpsc::Receiver<Vec<u8>>;
