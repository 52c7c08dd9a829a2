//! Detects that the agent is silent while this process waits for it. The agent may be stopped or
//! unable to accept connections, or its machine may be suspended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_stream::empty;
use tonic::transport::Channel;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::{Moments, v1};

use crate::options::Observer;
use crate::waits::Waits;

/// A watchdog for the agent. After it is dropped, its task continues until nothing waits any more.
#[derive(Debug)]
pub(crate) struct Watchdog(Arc<Waits>);

impl Watchdog {
    /// Monitors the agent behind a socket, and reports its silence to the observer while something waits.
    /// Must be called in a tokio runtime.
    pub(crate) fn keep(client: AgentClient<Channel>, socket: PathBuf, observer: Observer) -> Self {
        let waits = Arc::<Waits>::default();
        let watched = Arc::clone(&waits);
        tokio::spawn(async move {
            while watched.have_begun().await {
                tokio::select! {
                    () = ask(client.clone(), &watched) => {}
                    () = look(&watched, &socket, &observer) => {}
                }
            }
        });
        Self(waits)
    }

    pub(crate) fn waits(&self) -> &Arc<Waits> {
        &self.0
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Sends the agent a request whenever it has been silent since the last check.
///
/// The request is a stream without all-reduces. It needs no session, does not count towards the process's limits, and
/// has no bytes that would have to wait behind requests that the agent has not read. Any answer shows that the agent
/// lives.
async fn ask(mut client: AgentClient<Channel>, waits: &Waits) {
    loop {
        sleep(Moments::LOOK_INTERVAL).await;
        if waits.are_silent() {
            let answer = client.all_reduce(empty::<v1::AllReduceRequest>()).await;
            waits.heard();
            if let Ok(answers) = answer {
                // The stream is read to its end, because cancelling it would send another message.
                let _ = answers.into_inner().message().await;
            }
        }
    }
}

/// Measures the agent's silence until nothing waits any more, or until the process abandons the
/// agent.
async fn look(waits: &Waits, socket: &Path, observer: &Observer) {
    let mut looks = interval(Moments::LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moments = Moments::default();
    // The first tick arrives immediately.
    looks.tick().await;
    loop {
        looks.tick().await;
        let Some(silent) = waits.look() else { return };
        if moments.is_one(silent) {
            observer.tell_of_silence(socket, silent);
        }
        if silent >= Moments::FIRST {
            waits.give_up_in_time(silent, socket);
            if waits.check().is_err() {
                return;
            }
        }
    }
}
