//! Detects a switch that no longer answers.
//!
//! A switch that was stopped or has lost power does not close its connections.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::{Mastership, Session};
use crate::p4::v1::CapabilitiesRequest;

/// The task that probes the switch; it ends with the session.
#[derive(Debug)]
pub(super) struct Watcher(JoinHandle<()>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Session {
    /// Probes the switch every `interval` from now on.
    /// The session [ends](Mastership::Ended) when an answer takes longer than `patience`.
    ///
    /// The probe requests the switch's capabilities, which costs the switch almost nothing. HTTP/2
    /// pings would also work, but BMv2's gRPC server closes connections that ping more often than
    /// once in five minutes.
    pub fn watch_silence(&mut self, interval: Duration, patience: Duration) {
        let (mut client, states) = (self.client.clone(), self.states.clone());
        let request = CapabilitiesRequest { device_id: self.target.device_id };
        self.watcher = Some(Watcher(tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                // A refusal is an answer, too. If the connection breaks, the stream's reader
                // reports the end of the session.
                if tokio::time::timeout(patience, client.capabilities(request)).await.is_err() {
                    states.set(silent(patience));
                    return;
                }
            }
        })));
    }
}

fn silent(patience: Duration) -> Mastership {
    Mastership::Ended { reason: format!("it has not answered for {} s", patience.as_secs_f64()) }
}
