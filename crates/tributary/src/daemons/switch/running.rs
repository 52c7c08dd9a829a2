//! A running switch, with or without a P4Runtime server.

use std::time::Duration;

use anyhow::Result;
use tributary_softswitch::engine::{Control, Engine};
use tributary_softswitch::{ControlError, SoftSwitch};

/// The interval of checks for the end of the switch's thread.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

pub(super) enum Running {
    Served(SoftSwitch),
    Alone(Engine),
}

impl Running {
    pub(super) fn control(&self) -> &Control {
        match self {
            Self::Served(switch) => switch.control(),
            Self::Alone(engine) => engine.control(),
        }
    }

    /// Waits until the switch's thread has ended.
    pub(super) async fn ended(&self) {
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        loop {
            checks.tick().await;
            if matches!(self.control().run(|_| ()).await, Err(ControlError::Stopped)) {
                return;
            }
        }
    }

    /// Stops the switch.
    ///
    /// # Errors
    /// The switch's thread has panicked.
    pub(super) async fn stop(self) -> Result<()> {
        match self {
            Self::Served(switch) => switch.stop().await?,
            Self::Alone(engine) => engine.stop()?,
        }
        Ok(())
    }
}
